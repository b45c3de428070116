// Loads many tensors of a source into many places of memory at once. Every byte is read once, even where several places
// want it, converted to each place's type and checked against its digest. Owns the threads that read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "checkpoint/files/file_system.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"
#include "core/tp_slices.hpp"

namespace troupe::checkpoint {

/// A load reads in blocks of this size; so many are in flight or being looked at, which is the memory that it holds
/// beside its targets.
inline constexpr size_t scatter_block_bytes = size_t{1} << 20;
inline constexpr size_t scatter_blocks = 32;
/// Threads of one load at most; no more than the process has cores, but two.
inline constexpr size_t scatter_threads_max = 8;

/// Elements [first, first + count) of a tensor, or of a share of it, as `type`, at `to`; any alignment.
struct read_target {
  uint64_t first = 0, count = 0;
  core::dtype type = core::dtype::f32;
  std::byte* to = nullptr;
  const core::tp_slices* share =
      nullptr;  ///< of the tensor's shape; its padding is left alone. Null: all of the tensor
};

/// A tensor of the source and all who want something of it; targets do not overlap.
struct scattered_tensor {
  const tensor_entry* tensor = nullptr;
  std::vector<read_target> targets;
};

/// What a load read.
struct read_report {
  uint64_t bytes = 0;
  uint64_t verified_bytes = 0;  ///< of these; the rest are parts of pieces, whose digest says nothing of a part
};

/// Fills all targets, conversions rounded once. Digests are compared where the source has them and all of a piece is
/// wanted. `wants_end` is asked before each block, on any thread; true ends the load (stopped). Other errors, of the
/// first piece by file and offset that has one: io; bad_input for a piece that does not have its digest, with file,
/// offset and tensor; mismatch for types that do not become one another; bug for elements beyond the tensor. After an
/// error the targets hold no answer.
core::result<read_report> read_scattered(file_system& files, const tensor_source& from,
                                         std::span<const scattered_tensor> wanted,
                                         const std::function<bool()>& wants_end = {});

}  // namespace troupe::checkpoint
