// Formats the compression in `troupe plan`: the modules that each pattern chose, how they are compressed, and when.
#pragma once

#include <string>

#include "job/blueprint.hpp"

namespace troupe::apps {

/// Returns a table with one row for equally compressed modules of all blocks, and the most bytes of a rank for the
/// compressed copies of weights. Empty without compression.
std::string compression_summary(const job::blueprint& b);

}  // namespace troupe::apps
