// Counts ATen's allocations, by the rank whose lane asked, and gives large blocks from that rank's own heap of huge
// pages. Installed by a session at its start and removed at its end; threads that never called
// `attribute_allocations` are not counted.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::actors {

/// Owners that are counted separately in a process, over all sessions; ranks beyond that share the last one.
inline constexpr uint32_t ledger_owners_max = 256;

/// Blocks from this size on come from the owner's heap (`actors/memory/block_heap.hpp`), smaller ones from `malloc`.
inline constexpr uint64_t large_block_bytes = uint64_t{32} << 10;

/// From now on this thread's allocations through ATen belong to `owner`.
void attribute_allocations(uint32_t owner);

/// Counts while it lives; several may live at the same time.
class allocation_ledger {
 public:
  /// Takes owners of its own for `ranks` ranks, as many as are free, and resets their peaks.
  explicit allocation_ledger(uint32_t ranks);
  ~allocation_ledger();
  allocation_ledger(const allocation_ledger&) = delete;
  allocation_ledger& operator=(const allocation_ledger&) = delete;

  /// The owner that stands for a rank, for `attribute_allocations` and the questions below.
  [[nodiscard]] uint32_t owner(uint32_t rank) const {
    return rank < owners_.size() ? owners_[rank] : ledger_owners_max - 1;
  }
  [[nodiscard]] uint64_t current_bytes(uint32_t owner) const;
  [[nodiscard]] uint64_t peak_bytes(uint32_t owner) const;
  /// The peak since this was last asked, or since the ledger is there.
  uint64_t take_peak(uint32_t owner);

 private:
  std::vector<uint32_t> owners_;  // [rank]
};

}  // namespace troupe::actors
