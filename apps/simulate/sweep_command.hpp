// Owns `troupe simulate FILE --hardware NAME --sweep KEY=VALUES`: predicts the job at every point of the values.
#pragma once

#include "apps/simulate/simulate_command.hpp"

namespace troupe::apps {

/// Predicts and prints. Exit codes: 0 done, also if some points are refused; 1 the output cannot be written; 2 bad
/// input, or a sweep all of whose points are refused.
int show_sweep(const simulate_arguments& a);

}  // namespace troupe::apps
