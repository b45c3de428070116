// Transfers ranges of files to and from memory, cut into blocks that an `io_queue` keeps in flight. Owns the cutting,
// the edges and memory that direct I/O does not accept, and the combined result of the blocks. Used by one thread only,
// like its queue.
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
inline constexpr unsigned bounce_blocks_max = 16;  ///< blocks in flight through the runner's own aligned memory

struct block_runner_options {
  io_queue_options queue;
  uint64_t block_bytes = uint64_t{1} << 20;  ///< bytes of a block, a multiple of `direct_grain_bytes`
  bool single_submit = false;                ///< one system call for each block instead of one for several
  /// True: a finished block is replaced at once; false: when all are finished.
  bool overlap_events = true;
};

/// One transfer, with any offset, length and address. Memory at a multiple of 512 bytes (the alignment of most disks)
/// whose file offset is a multiple of `direct_grain_bytes` is transferred in place, other memory is copied.
struct block_job {
  io_kind kind = io_kind::read;
  file on;
  uint64_t offset = 0;
  std::span<std::byte> memory;  ///< memory of the transfer; a write only reads it
  uint64_t token = 0;
};

struct block_job_end {
  uint64_t token = 0;
  uint64_t bytes = 0;                ///< bytes transferred, also after an error
  std::optional<core::error> error;  ///< error of the first failed block; a read that does not get every byte fails
};

class block_runner {
 public:
  /// Opens a runner. Errors: `bad_input` for a block size out of range; those of `make_queue`.
  static core::result<std::unique_ptr<block_runner>> open(const block_runner_options& options);

  void add(block_job job);

  /// Submits as many blocks as the credits allow and collects finished ones. `block`: waits for one if any is in
  /// flight.
  void advance(bool block, std::vector<block_job_end>& out);

  [[nodiscard]] bool idle() const { return waiting_.empty() && queue_->in_flight() == 0; }
  /// True if no block can start before one in flight is finished.
  [[nodiscard]] bool full() const;
  [[nodiscard]] const io_queue& queue() const { return *queue_; }

 private:
  struct active {
    block_job job;
    uint64_t next = 0, end = 0;  // file positions of the direct part that has not started yet
    unsigned in_flight = 0;
    uint64_t bytes = 0;
    std::optional<core::error> error;
    bool started = false;
    bool in_row = true;  // listed among the jobs that may have more blocks to start
  };
  struct slot {
    std::shared_ptr<active> of;
    std::span<std::byte> memory;    // the caller's memory
    std::span<std::byte> transfer;  // memory of the queue's transfer: the caller's, or a bounce block
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
  huge_memory bounce_;  // outlives the queue, which waits for blocks in flight
  std::unique_ptr<io_queue> queue_;
  std::deque<std::shared_ptr<active>> waiting_;
  std::vector<slot> slots_;
  std::vector<uint32_t> idle_slots_;
  std::vector<int> idle_bounces_;
  std::vector<io_request> batch_;
  std::vector<io_completion> completions_;
};

}  // namespace troupe::storage
