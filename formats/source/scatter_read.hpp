// Loads many tensors of a source into many places in memory at once. Every byte is read once, even if several targets
// need it, converted to each target's type and checked against its digest. Owns the threads that read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "core/tp_slices.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {

/// Size of the blocks that a load reads, in bytes, and number of blocks that are in flight or being converted; their
/// product is the memory that a load uses in addition to its targets.
inline constexpr size_t scatter_block_bytes = size_t{1} << 20;
inline constexpr size_t scatter_blocks = 32;
/// Largest number of threads of one load; a load uses at most one thread per usable core, but two on one core.
inline constexpr size_t scatter_threads_max = 8;

/// Elements [first, first + count) of a tensor, or of a share of it, to be written as `type` at `to`, which may have
/// any alignment.
struct read_target {
  uint64_t first = 0, count = 0;
  core::dtype type = core::dtype::f32;
  std::byte* to = nullptr;
  const core::tp_slices* share =
      nullptr;  ///< share of the tensor in which `first` counts; padding is not written. Null: the whole tensor
};

/// A tensor of the source and the targets that need elements of it; targets must not overlap.
struct scattered_tensor {
  const tensor_entry* tensor = nullptr;
  std::vector<read_target> targets;
};

/// Number of bytes that a load has read, and number of bytes whose digests it has verified.
struct read_report {
  uint64_t bytes = 0;
  /// Bytes whose digest was compared; the rest are parts of pieces, which have no digest of their own.
  uint64_t verified_bytes = 0;
};

/// Fills all targets; conversions round once. Digests are compared if the source has them and a whole piece is wanted.
/// `wants_end` is called before each block, on any thread; true stops the load (stopped). Any other error is that of
/// the first failing piece by file and offset: io; bad_input for a piece whose bytes do not match its digest, with
/// file, offset and tensor; mismatch for types that cannot be converted; numeric for a value that a target's type
/// cannot hold, unless the run computed in fp16; bug for elements beyond the tensor. After an error the contents of the
/// targets are unspecified.
core::result<read_report> read_scattered(storage::file_system& files, const tensor_source& from,
                                         std::span<const scattered_tensor> wanted,
                                         const std::function<bool()>& wants_end = {});

}  // namespace troupe::formats
