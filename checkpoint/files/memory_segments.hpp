// Shared memory for files that come and go: what a removed file had is kept and taken for the next one that it fits,
// since new pages cost more than the copy into them. Owns the segments that nobody uses, and the limits; a segment in
// use is its users'.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "core/error.hpp"
#include "storage/memory/shared_memory.hpp"

namespace troupe::checkpoint {

/// Segments that are kept at most; the oldest goes first.
inline constexpr size_t max_kept_segments = 256;
/// A kept segment is taken for bytes that fill at least half of it, or when it is no larger than this.
inline constexpr uint64_t small_segment_bytes = uint64_t{64} << 10;

struct segment_use {       ///< bytes of memory, whole pages
  uint64_t used = 0;       ///< in use
  uint64_t most_used = 0;  ///< at one time; so much is kept at most
  uint64_t kept = 0;       ///< in use by nobody
  uint64_t made = 0;       ///< segments that were made so far
};

/// For any number of threads.
class memory_segments : public std::enable_shared_from_this<memory_segments> {
 public:
  using segment = std::shared_ptr<storage::shared_memory>;

  /// `limit_bytes` of what is used and kept.
  explicit memory_segments(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// At least `bytes`, more than 0, of any content; it comes back when the last user lets it go. Errors: no_space
  /// beyond the limit or where the machine has no such memory free; limit, where it has no descriptors.
  core::result<segment> take(uint64_t bytes);
  /// Gives what is kept back to the machine.
  void forget();
  [[nodiscard]] segment_use use() const;
  [[nodiscard]] uint64_t limit_bytes() const { return limit_bytes_; }

 private:
  using owned = std::unique_ptr<storage::shared_memory>;

  owned take_kept(uint64_t bytes);
  void make_room(uint64_t bytes);
  void drop_oldest();
  void give_back(owned memory);

  const uint64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::deque<owned> kept_;  ///< the oldest first
  segment_use use_;
};

}  // namespace troupe::checkpoint
