// Shared memory for files that are often made and removed. The memory of a removed file is kept and reused for the next
// file that is not larger, because new pages cost more than the copy into them. Owns the unused segments and the
// limits; a segment in use belongs to its users.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "core/error.hpp"
#include "storage/memory/shared_memory.hpp"

namespace troupe::storage {

/// Largest number of kept segments; the oldest is released first.
inline constexpr size_t max_kept_segments = 256;
/// A kept segment is reused for bytes that fill at least half of it, or if it is no larger than this many bytes.
inline constexpr uint64_t small_segment_bytes = uint64_t{64} << 10;

/// Memory use of a memory_segments, in bytes of whole pages.
struct segment_use {
  uint64_t used = 0;       ///< bytes of segments that files use
  uint64_t most_used = 0;  ///< peak of `used`; upper bound of `kept`
  uint64_t kept = 0;       ///< bytes of unused segments, kept for later files
  uint64_t made = 0;       ///< number of segments created so far
};

/// A pool of shared memory segments, for any number of threads.
class memory_segments : public std::enable_shared_from_this<memory_segments> {
 public:
  using segment = std::shared_ptr<shared_memory>;

  /// `limit_bytes` bounds the sum of used and kept bytes.
  explicit memory_segments(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Returns a segment of at least `bytes` (more than 0) with arbitrary content. It returns to the pool when its last
  /// user releases it. Errors: no_space beyond the limit or if the machine has too little such memory free; limit if it
  /// has no descriptors left.
  core::result<segment> take(uint64_t bytes);
  [[nodiscard]] segment_use use() const;
  [[nodiscard]] uint64_t limit_bytes() const { return limit_bytes_; }

 private:
  using owned = std::unique_ptr<shared_memory>;

  owned take_kept(uint64_t bytes);
  void make_room(uint64_t bytes);
  void drop_oldest();
  void give_back(owned memory);

  const uint64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::deque<owned> kept_;  ///< unused segments, the longest unused first
  segment_use use_;
};

}  // namespace troupe::storage
