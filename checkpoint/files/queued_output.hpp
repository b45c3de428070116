// A new file that is written past the page cache with many requests in flight. Owns the order of its writes, the small
// buffer that plain writes are copied through, and the file's last bytes, which no direct write can have alone. The
// transfers are storage/'s.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "checkpoint/files/file_system.hpp"
#include "core/error.hpp"
#include "storage/queue/io_queue.hpp"

namespace troupe::checkpoint {

struct queued_output_options {
  storage::queue_engine engine = storage::queue_engine::best;
  unsigned depth = 32;                            ///< requests in flight
  uint64_t request_bytes = uint64_t{1} << 20;     ///< most of one; longer writes are cut
  uint64_t copy_block_bytes = uint64_t{1} << 20;  ///< of the memory that plain writes are copied through
  unsigned copy_blocks = 16;                      ///< at least 2: one is filled while the others are written
  bool direct = true;                             ///< past the page cache where the file system does that
};

/// `path` must not exist. Lengths are multiples of write_alignment_bytes, else error_kind::bug.
core::result<std::unique_ptr<output_file>> create_queued_output(const std::filesystem::path& path,
                                                                const queued_output_options& options = {});

}  // namespace troupe::checkpoint
