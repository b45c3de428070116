// Large blocks of memory for one rank's activations, cut from huge pages that stay mapped while the rank lives: a step
// reuses the blocks that the previous step freed, so it neither faults pages in nor returns them. Owns the memory; the
// ledger counts it, by owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "storage/memory/huge_memory.hpp"

namespace troupe::actors {

/// Best fit with neighbours joined (Knuth, The Art of Computer Programming 1, 2.5), so memory grows with the most bytes
/// alive at a time, not with the number of sizes. From any thread.
class block_heap {
 public:
  static constexpr uint64_t alignment_bytes = 64;
  /// A mapping is as large as its first block needs, but at least this, and at least a quarter of the bytes mapped
  /// already (so that there are few), where the quarter counts up to `segment_bytes_max`.
  static constexpr uint64_t segment_bytes_min = uint64_t{8} << 20;
  static constexpr uint64_t segment_bytes_max = uint64_t{256} << 20;

  block_heap();
  ~block_heap();  ///< ends every block, too
  block_heap(const block_heap&) = delete;
  block_heap& operator=(const block_heap&) = delete;

  /// `bytes` of undefined contents, aligned; null if the system has no more.
  void* allocate(uint64_t bytes);
  void free(void* block);

  /// From now on memory without blocks is kept for the next ones.
  void keep();
  /// Returns mappings without blocks to the system, now and whenever the last block of one is freed.
  void give_up();

  [[nodiscard]] uint64_t mapped_bytes() const;

 private:
  struct tag;  // in front of every block, free or taken
  struct segment;

  tag* grow(uint64_t bytes);
  void drop_empty();

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<segment>> segments_;
  std::set<std::pair<uint64_t, tag*>> free_;  // bytes with the tag; equal ones by address
  uint64_t mapped_bytes_ = 0;
  bool keeps_ = false;
};

}  // namespace troupe::actors
