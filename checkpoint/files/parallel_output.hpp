// Writes one file whose length is known from blocks that several threads fill, each written as soon as it is full: past
// the page cache where the file system does that. What the bytes are is the caller's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "checkpoint/files/atomic_file.hpp"
#include "checkpoint/files/progress.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Bytes of a block, and of the memory that each thread holds.
inline constexpr size_t output_block_bytes = size_t{8} << 20;
/// Threads: one reads while the other writes.
inline constexpr size_t output_workers = 2;

/// Fills `out` with the file's bytes from `offset_bytes` on, which is a multiple of output_block_bytes. Called once for
/// each block, by worker 0 to output_workers - 1 at the same time.
using block_source = std::function<core::result<void>(size_t worker, uint64_t offset_bytes, std::span<std::byte> out)>;

/// Told of bytes that were written; false ends the work. Called by one thread at a time.
using block_done = std::function<bool(uint64_t bytes)>;

/// A synced file of `bytes` bytes beside `target`, which commit() gives its name. Errors: what `fill` says, no_space,
/// io, stopped.
core::result<atomic_file> write_in_blocks(const std::filesystem::path& target, uint64_t bytes, const block_source& fill,
                                          const block_done& done);

}  // namespace troupe::checkpoint
