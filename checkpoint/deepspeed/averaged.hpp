// Parameters of which every tensor-parallel rank has a version of its own, and whose value is the mean of all: their
// values, worked out when a folder is opened. Which ones these are the folder's patterns say.
#pragma once

#include "checkpoint/megatron/source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Bytes of all such tensors of one folder; they are kept in memory.
inline constexpr uint64_t max_averaged_bytes = uint64_t{1} << 30;

/// Gives the averaged tensors of `m` their values, where the ranks' differ as bytes in memory: as DeepSpeed's
/// ds_to_universal has them, the sum in the order of ranks, divided by their number, in fp32. Refused: whole numbers
/// that differ, more than the limit.
core::result<void> take_means(merged_source& m);

}  // namespace troupe::checkpoint
