// Computes, when a folder is opened, the values of parameters of which every tensor-parallel rank has its own version
// and whose value is the mean of all versions. The folder's patterns say which parameters these are.
#pragma once

#include "core/error.hpp"
#include "formats/megatron/source.hpp"

namespace troupe::formats {

/// Maximum bytes in memory for the means of one folder, plus the ranks' values of the tensor that is being averaged.
inline constexpr uint64_t max_averaged_bytes = uint64_t{1} << 30;

/// Sets the values of the averaged tensors of `m` in memory where the ranks' bytes differ. Computes them as DeepSpeed's
/// ds_to_universal does: the sum in the order of ranks, divided by their number, in fp32 (in fp64 for fp64 tensors).
/// Refused: integer tensors that differ, more than max_averaged_bytes.
core::result<void> take_means(merged_source& m);

}  // namespace troupe::formats
