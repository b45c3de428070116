// Formats the compression in `troupe plan`: the modules that each pattern chose, how they are compressed, and when.
#pragma once

#include <string>

#include "job/blueprint.hpp"

namespace troupe::apps {

/// Returns a row for modules that are compressed alike, with all blocks in one row, and the largest size of their
/// copies. Empty without compression.
std::string compression_summary(const job::blueprint& b);

}  // namespace troupe::apps
