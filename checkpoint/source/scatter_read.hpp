// Many tensors of a source into many places of memory in one go: every byte is read once, whoever wants it, in
// whatever type, and held against its digest. Owns the threads that read; what is wanted is the caller's choice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/files/file_system.hpp"
#include "checkpoint/source/native_read.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Threads of one load, and the memory that each of them reads into: what a load holds beside its targets.
inline constexpr size_t scatter_threads = 8;
inline constexpr size_t scatter_block_bytes = size_t{4} << 20;

/// Elements [first, first + count) of a tensor as `type`, at `to`; any alignment.
struct read_target {
  uint64_t first = 0, count = 0;
  core::dtype type = core::dtype::f32;
  std::byte* to = nullptr;
};

/// A tensor of the source and all who want something of it; targets do not overlap.
struct scattered_tensor {
  const tensor_entry* tensor = nullptr;
  std::vector<read_target> targets;
};

/// Fills all targets, conversions rounded once. Digests are compared where the source has them and all of a piece is
/// wanted. Errors: io; bad_input for a piece that does not have its digest, with file, offset and tensor; mismatch for
/// types that do not become one another; bug for elements beyond the tensor. Then the targets hold no answer.
core::result<read_report> read_scattered(file_system& files, const tensor_source& from,
                                         std::span<const scattered_tensor> wanted, const read_options& options = {});

}  // namespace troupe::checkpoint
