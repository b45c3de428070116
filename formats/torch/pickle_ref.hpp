// Defines the number that identifies a value of a pickle, for headers that need nothing else of pickle_tree.
#pragma once

#include <cstdint>

namespace troupe::formats {

/// Number of a value in a pickle_tree. A shared value has one number.
using pickle_ref = uint32_t;

}  // namespace troupe::formats
