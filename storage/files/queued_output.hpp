// A new file that is written past the page cache with many requests in flight. Owns the order of its writes, the buffer
// that plain writes are copied through, and the end of the file, which a direct write cannot write at its exact length.
// Leaves the transfers to storage/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "core/error.hpp"
#include "storage/files/file_system.hpp"
#include "storage/queue/io_queue.hpp"

namespace troupe::storage {

struct queued_output_options {
  queue_engine engine = queue_engine::best;
  unsigned depth = 32;                            ///< maximum number of requests in flight
  uint64_t request_bytes = uint64_t{1} << 20;     ///< maximum bytes of one request; longer writes are split
  uint64_t copy_block_bytes = uint64_t{1} << 20;  ///< bytes of one block of the copy buffer for plain writes
  unsigned copy_blocks = 16;                      ///< number of blocks, at least 2: one fills while others are written
  bool direct = true;                             ///< true: bypasses the page cache where the file system supports that
};

/// Creates the file `path`, which must not exist. `request_bytes` and `copy_block_bytes` must be multiples of
/// write_alignment_bytes, else error_kind::bug.
core::result<std::unique_ptr<output_file>> create_queued_output(const std::filesystem::path& path,
                                                                const queued_output_options& options = {});

}  // namespace troupe::storage
