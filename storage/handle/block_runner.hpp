// Transfers ranges of files to and from memory, divided into blocks that an `io_queue` keeps in flight. Owns the
// division, the handling of edges and memory that direct I/O does not accept, and the combined result of the blocks.
// Used by one thread only, because its queue is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "storage/memory/huge_memory.hpp"
#include "storage/queue/io_queue.hpp"

namespace troupe::storage {

/// Direct transfers of a range begin and end at multiples of this number of bytes; the parts before and after go
/// through the page cache, which holds whole pages.
inline constexpr uint64_t direct_grain_bytes = 4096;
/// Largest number of blocks in flight whose memory is not aligned, so that they are copied through aligned memory.
inline constexpr unsigned bounce_blocks_max = 16;

struct block_runner_options {
  io_queue_options queue;
  uint64_t block_bytes = uint64_t{1} << 20;  ///< size of a block, a multiple of `direct_grain_bytes`
  bool single_submit = false;                ///< true: one system call for each block; false: one for several
  /// True: a new block starts when a block is finished; false: new blocks start when all are finished.
  bool overlap_events = true;
};

/// One transfer, with any offset, length and address. Memory at a multiple of 512 bytes (the alignment of most disks)
/// whose file offset is a multiple of `direct_grain_bytes` is transferred in place; other memory is copied through
/// aligned memory.
struct block_job {
  io_kind kind = io_kind::read;
  file on;
  uint64_t offset = 0;
  std::span<std::byte> memory;  ///< memory of the transfer; a write only reads it
  uint64_t token = 0;
};

struct block_job_end {
  uint64_t token = 0;
  uint64_t bytes = 0;                ///< number of bytes transferred, also after an error
  std::optional<core::error> error;  ///< error of the first failed block; reading past the file's end is an error
};

class block_runner {
 public:
  /// Opens a runner. Errors: `bad_input` for a block size out of range; those of `make_queue`.
  static core::result<std::unique_ptr<block_runner>> open(const block_runner_options& options);

  void add(block_job job);

  /// Submits as many blocks as the queue has room for, collects finished blocks, and appends finished jobs to `out`.
  /// `block`: waits until a block is finished, if one is in flight.
  void advance(bool block, std::vector<block_job_end>& out);

  [[nodiscard]] bool idle() const { return waiting_.empty() && queue_->in_flight() == 0; }
  /// True if no further block can start until a block in flight has finished.
  [[nodiscard]] bool full() const;
  [[nodiscard]] const io_queue& queue() const { return *queue_; }

 private:
  struct active {
    block_job job;
    uint64_t next = 0, end = 0;  // [next, end): bytes of the direct part that are not started yet
    unsigned in_flight = 0;
    uint64_t bytes = 0;
    std::optional<core::error> error;
    bool started = false;
    bool in_row = true;  // true: the job is in waiting_, as it may have more blocks to start
  };
  struct slot {
    std::shared_ptr<active> of;
    std::span<std::byte> memory;    // memory of the block in the caller's memory
    std::span<std::byte> transfer;  // memory that the queue uses: the caller's, or a bounce block
    int bounce = -1;
  };

  explicit block_runner(const block_runner_options& options, std::unique_ptr<io_queue> queue);
  void start(active& a);
  core::result<void> edge(active& a, uint64_t from, uint64_t to);
  core::result<bool> place(slot& s, const file& on, io_kind kind);
  void fill(std::vector<block_job_end>& out);
  void over(const io_completion& c, std::vector<block_job_end>& out);
  static void end(const active& a, std::vector<block_job_end>& out) { out.push_back({a.job.token, a.bytes, a.error}); }

  block_runner_options options_;
  huge_memory bounce_;  // before queue_, so that it is destroyed after the queue has waited for blocks in flight
  std::unique_ptr<io_queue> queue_;
  std::deque<std::shared_ptr<active>> waiting_;
  std::vector<slot> slots_;
  std::vector<uint32_t> idle_slots_;
  std::vector<int> idle_bounces_;
  std::vector<io_request> batch_;
  std::vector<io_completion> completions_;
};

}  // namespace troupe::storage
