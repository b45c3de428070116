// Owns `troupe simulate FILE --hardware NAME --search`: prices every way to divide the job's step over the ranks, and
// ranks those that fit a limit of memory.
#pragma once

#include "apps/simulate/simulate_command.hpp"

namespace troupe::apps {

/// Searches and prints. Exit codes: 0 done; 2 bad input, or no way fits.
int show_search(const simulate_arguments& a);

}  // namespace troupe::apps
