// A virtual file of zeros, for tensors that a checkpoint lacks and whose elements are all 0.
#pragma once

#include <cstdint>

#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Adds a virtual file of `bytes` zeros to the files of `s` and returns its index; any number of tensors may use the
/// same bytes of it. Such a file has no digests and no header, so `s` then has neither digests nor a save id.
uint32_t add_zeros(tensor_source& s, uint64_t bytes);

}  // namespace troupe::formats
