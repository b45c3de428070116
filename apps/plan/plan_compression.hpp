// What `troupe plan` says of compression: the modules that each pattern chose, what becomes of them, and when.
#pragma once

#include <string>

#include "job/blueprint.hpp"

namespace troupe::apps {

/// A row for modules that are compressed alike, those of all blocks in one, then the most that their copies take. Empty
/// where nothing is compressed.
std::string compression_summary(const job::blueprint& b);

}  // namespace troupe::apps
