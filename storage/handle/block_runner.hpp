// Ranges of files to and from memory, cut into blocks that an `io_queue` keeps in flight. Owns the cutting, the edges
// and memory that direct I/O does not take, and the sum of what the blocks came to. Belongs to one thread, as its queue
// does.
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

/// Direct transfers of a range begin and end at multiples of this; what is before and behind goes through the page
/// cache, which holds whole pages.
inline constexpr uint64_t direct_grain_bytes = 4096;
inline constexpr unsigned bounce_blocks_max = 16;  ///< blocks under way through aligned memory of the runner's own

struct block_runner_options {
  io_queue_options queue;
  uint64_t block_bytes = uint64_t{1} << 20;  ///< a multiple of `direct_grain_bytes`
  bool single_submit = false;                ///< one system call for each block instead of one for several
  bool overlap_events = true;                ///< replaces blocks that are over at once; else when all are over
};

/// Any offset, length and address. Memory at a multiple of 512 bytes (what most disks want) whose file offset is a
/// multiple of `direct_grain_bytes` is transferred in place, other memory is copied on the way.
struct block_job {
  io_kind kind = io_kind::read;
  file on;
  uint64_t offset = 0;
  std::span<std::byte> memory;  ///< a write only looks
  uint64_t token = 0;
};

struct block_job_end {
  uint64_t token = 0;
  uint64_t bytes = 0;                ///< transferred, in any case
  std::optional<core::error> error;  ///< of the first block that failed; a read wants every byte
};

class block_runner {
 public:
  /// Errors  `bad_input` for a block size out of range; those of `make_queue`.
  static core::result<std::unique_ptr<block_runner>> open(const block_runner_options& options);

  void add(block_job job);

  /// Submits what the credits allow and takes what is over; `block`: waits for something where anything is in flight.
  void advance(bool block, std::vector<block_job_end>& out);

  [[nodiscard]] bool idle() const { return waiting_.empty() && queue_->in_flight() == 0; }
  /// Nothing can be begun before something in flight is over.
  [[nodiscard]] bool full() const;
  [[nodiscard]] const io_queue& queue() const { return *queue_; }

 private:
  struct active {
    block_job job;
    uint64_t next = 0, end = 0;  // of the file: what is not yet begun of the direct part
    unsigned in_flight = 0;
    uint64_t bytes = 0;
    std::optional<core::error> error;
    bool started = false;
    bool in_row = true;  // of those that may have more to begin
  };
  struct slot {
    std::shared_ptr<active> of;
    std::span<std::byte> memory;    // the caller's
    std::span<std::byte> transfer;  // the queue's memory: the same, or a bounce block
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
  huge_memory bounce_;  // outlives the queue, which waits for what is in flight
  std::unique_ptr<io_queue> queue_;
  std::deque<std::shared_ptr<active>> waiting_;
  std::vector<slot> slots_;
  std::vector<uint32_t> idle_slots_;
  std::vector<int> idle_bounces_;
  std::vector<io_request> batch_;
  std::vector<io_completion> completions_;
};

}  // namespace troupe::storage
