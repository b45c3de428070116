// Allocates large blocks of memory for one rank's activations from huge pages that stay mapped while the rank exists: a
// step reuses the blocks that the previous step freed, so it neither faults pages in nor returns them. Owns the memory;
// the ledger counts it, by owner.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "storage/memory/huge_memory.hpp"

namespace troupe::actors {

/// Allocates by best fit and joins free neighbours (Knuth, The Art of Computer Programming 1, 2.5), so memory grows
/// with the most bytes in use at a time, not with the number of sizes. Thread-safe.
class block_heap {
 public:
  static constexpr uint64_t alignment_bytes = 64;
  /// Limits of the size of a mapping: it has the size that its first block needs, but at least segment_bytes_min, and
  /// at least a quarter of the bytes that are mapped already, to keep mappings few; that quarter is limited to
  /// `segment_bytes_max`.
  static constexpr uint64_t segment_bytes_min = uint64_t{8} << 20;
  static constexpr uint64_t segment_bytes_max = uint64_t{256} << 20;

  block_heap();
  ~block_heap();  ///< frees every block, including those in use
  block_heap(const block_heap&) = delete;
  block_heap& operator=(const block_heap&) = delete;

  /// Returns `bytes` of undefined contents, aligned; null if the system has no more memory.
  void* allocate(uint64_t bytes);
  void free(void* block);

  /// Makes the heap keep mappings in which no block is in use, for later allocations, instead of returning them to the
  /// system.
  void keep();
  /// Returns mappings in which no block is in use to the system, now and from now on whenever the last block of a
  /// mapping is freed.
  void give_up();

  [[nodiscard]] uint64_t mapped_bytes() const;

 private:
  struct tag;  // header of every block, free or in use
  struct segment;

  tag* grow(uint64_t bytes);
  void drop_empty();

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<segment>> segments_;
  // Free blocks, ordered by size in bytes, then by address.
  std::set<std::pair<uint64_t, tag*>> free_;
  uint64_t mapped_bytes_ = 0;
  bool keeps_ = false;
};

}  // namespace troupe::actors
