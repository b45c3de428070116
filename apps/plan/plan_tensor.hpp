// Formats tensor parallelism for `troupe plan`: which parameters are split, along which dimension, how wide, and the
// exchanges that this causes.
#pragma once

#include <string>

#include "job/blueprint.hpp"

namespace troupe::apps {

/// Returns a row for each split parameter, with equally split blocks in one row, and the exchanges of a step. Requires
/// a tensor degree above 1.
std::string tensor_summary(const job::blueprint& b);

}  // namespace troupe::apps
