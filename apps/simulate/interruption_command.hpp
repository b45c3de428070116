// Owns `troupe simulate FILE --hardware NAME --mtbf TIME`: the share of time that failures leave to steps that are
// kept, and how often to save.
#pragma once

#include "apps/simulate/simulate_command.hpp"

namespace troupe::apps {

/// Predicts and prints. Exit codes: 0 done; 2 bad input.
int show_interruptions(const simulate_arguments& a);

}  // namespace troupe::apps
