// Owns `troupe tune FILE`: which settings are compared, predicted and tried, in which order.
#pragma once

#include "apps/tune/tune_arguments.hpp"

namespace troupe::apps {

/// Tunes and prints. Exit codes: 0 at least one trial gave a step time; 1 none did; 2 bad input, or nothing fits the
/// memory; 128 + number after a signal, when what is known has been printed.
int tune(const tune_arguments& a);

}  // namespace troupe::apps
