// What settings of a cut run move and keep: the run's own beside others that it could have. Owns which are compared;
// the plans are plan/'s.
#pragma once

#include <string>

#include "job/blueprint.hpp"

namespace troupe::apps {

/// A row for the run's settings and for each other order of gradients and distance of reuse: gathers and reductions of
/// the rank that moves most, their bytes, its memory. Empty where nothing else could be chosen.
std::string moves_summary(const job::blueprint& b);

}  // namespace troupe::apps
