// Owns `troupe simulate FILE`: runs the first steps of a job on a virtual clock, by the actors that would run them, and
// prints what was found. Needs the actors, without LibTorch.
#pragma once

#include "apps/simulate/simulate_command.hpp"
#include "job/measured_costs.hpp"

namespace troupe::apps {

/// Simulates and prints. Exit codes: 0 done, whatever the faults did; 1 the output cannot be written, or a bug; 2 bad
/// input. `products` is used if the arguments ask for measured rates.
int show_simulation(const simulate_arguments& a, const job::product_meter& products);

}  // namespace troupe::apps
