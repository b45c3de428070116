// Executes a load plan: range reads, many in flight and past the page cache where there are many bytes, digests
// compared behind them where whole pieces arrive. Memory is bounded, whatever the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "checkpoint/files/file_system.hpp"
#include "checkpoint/native/manifest_file.hpp"
#include "checkpoint/source/load_plan.hpp"
#include "core/error.hpp"
#include "storage/queue/io_queue.hpp"

namespace troupe::checkpoint {

/// A block for those who go through a tensor bit by bit.
inline constexpr size_t read_block_bytes = size_t{4} << 20;
/// Of a file's bytes, what a direct read must begin and end at.
inline constexpr uint64_t read_alignment_bytes = 4096;

/// How a load reads.
struct read_options {
  bool verify = true;         ///< compare digests of pieces that are read whole
  bool verify_beside = true;  ///< on a thread of its own, while further reads are under way
  storage::queue_engine engine = storage::queue_engine::best;
  unsigned depth = 32;                         ///< reads in flight
  uint64_t request_bytes = uint64_t{1} << 20;  ///< most that one asks for; a multiple of read_alignment_bytes
  /// Plans of fewer bytes, or of shorter reads on average, are read through the page cache, one after the other.
  uint64_t direct_bytes_min = uint64_t{4} << 20;
  uint64_t direct_read_bytes_min = uint64_t{16} << 10;
  std::function<bool()> wants_end{};  ///< asked before each block, on any thread; true ends the load (stopped)
};

/// What a load read.
struct read_report {
  uint64_t bytes = 0;
  uint64_t verified_bytes = 0;  ///< of these; the rest are parts of pieces, whose digest says nothing of a part
  uint64_t direct_bytes = 0;    ///< of these, past the page cache
};

/// Fills `destination`, of at least plan.destination_bytes. Each file is opened once and its header checked. Errors
/// name file and offset, a broken piece its tensor too; then `destination` holds no answer. Memory besides: `depth`
/// requests.
core::result<read_report> read_pieces(file_system& files, const checkpoint_folder& from, const load_plan& plan,
                                      std::span<std::byte> destination, const read_options& options = {});

}  // namespace troupe::checkpoint
