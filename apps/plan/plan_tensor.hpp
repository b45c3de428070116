// What `troupe plan` says of a cut over the tensor axis: which parameters, along which dimension, how wide, and what is
// exchanged for that.
#pragma once

#include <string>

#include "job/blueprint.hpp"

namespace troupe::apps {

/// A row for each parameter that is cut, blocks that are cut alike in one; then the exchanges of a step. The
/// blueprint's tensor degree is above 1.
std::string tensor_summary(const job::blueprint& b);

}  // namespace troupe::apps
