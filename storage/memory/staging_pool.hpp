// A fixed number of equal blocks on huge pages, lent out as leases: what snapshots and swaps copy through. Sized once
// at the start, nothing is allocated afterwards; whoever finds it empty waits, so memory never grows. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/error.hpp"

namespace troupe::storage {

struct staging_counters {
  uint64_t blocks = 0;
  uint64_t in_use = 0;
  uint64_t most_in_use = 0;  ///< since the start
  uint64_t leases = 0;       ///< given
  uint64_t waits = 0;        ///< a block was wanted and none was there
};

class staging_pool {
  struct shared_state;

 public:
  static constexpr uint64_t block_alignment_bytes = 4096;  ///< every block starts and ends so; fits direct I/O
  static constexpr uint64_t blocks_max = 65536;

  /// One block, exclusively; goes back when the lease ends. May outlive the pool and end on another thread.
  class lease {
   public:
    lease() = default;
    lease(lease&& o) noexcept;
    lease& operator=(lease&& o) noexcept;
    lease(const lease&) = delete;
    lease& operator=(const lease&) = delete;
    ~lease();

    /// All bytes of the block, aligned; what the last lease left in them.
    [[nodiscard]] std::span<std::byte> memory() const { return memory_; }
    void end();  ///< gives the block back before the lease's own end

   private:
    friend class staging_pool;
    std::shared_ptr<shared_state> of_;
    uint32_t index_ = 0;
    std::span<std::byte> memory_;
  };

  /// `num_blocks` blocks of at least `block_bytes` each, rounded up to the alignment.
  /// Errors  `bad_input` for none or more than `blocks_max`; `limit` when there is no such memory.
  static core::result<staging_pool> create(uint64_t block_bytes, uint64_t num_blocks);

  [[nodiscard]] uint64_t block_bytes() const;
  [[nodiscard]] staging_counters counters() const;
  [[nodiscard]] std::span<std::byte> memory() const;  ///< all of it, for `io_queue_options::pools`

  /// A block, or nothing when all are lent out, which counts as a wait: the plan's backpressure.
  std::optional<lease> try_take();

  /// Blocks the thread until there is a block. For threads that do nothing else, never in an actor's handler.
  lease take();

 private:
  std::shared_ptr<shared_state> state_;
};

}  // namespace troupe::storage
