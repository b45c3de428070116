// Defines the number by which the values of a pickle are named, for headers that pass such numbers on.
#pragma once

#include <cstdint>

namespace troupe::formats {

/// Number of a value in a pickle_tree. A shared value has one number.
using pickle_ref = uint32_t;

}  // namespace troupe::formats
