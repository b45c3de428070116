// Writes one file of known length from blocks that several threads fill. Each block is written as soon as it is full,
// past the page cache where the file system supports that. Leaves the content to the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "core/error.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::storage {

/// Bytes of a block, and of the buffer of each thread.
inline constexpr size_t output_block_bytes = size_t{8} << 20;
/// The number of threads: one fills a block while the other writes.
inline constexpr size_t output_workers = 2;

/// Fills `out` with the bytes of the file at `offset_bytes`, a multiple of output_block_bytes. Called once for each
/// block, concurrently by workers 0 to output_workers - 1.
using block_source = std::function<core::result<void>(size_t worker, uint64_t offset_bytes, std::span<std::byte> out)>;

/// Called with the number of bytes of each written block; the result false stops the work. Called by one thread at a
/// time.
using block_done = std::function<bool(uint64_t bytes)>;

/// Writes and syncs a file of `bytes` bytes under a working name; commit() of the result renames it to `target`.
/// Errors: the errors of `fill`, no_space, io, stopped.
core::result<atomic_file> write_in_blocks(const std::filesystem::path& target, uint64_t bytes, const block_source& fill,
                                          const block_done& done);

}  // namespace troupe::storage
