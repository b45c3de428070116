// Counts ATen's allocations separately for each rank: of host memory by the thread that makes them, of device memory by
// the stream on which they are used. Takes large blocks of host memory from a heap of huge pages of the rank. A session
// installs the ledger at its start and removes it at its end; threads and streams that were never attributed to an
// owner are not counted.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::actors {

/// Number of owners (ranks) that a process counts separately, over all sessions; the last one is shared by all further
/// ranks.
inline constexpr uint32_t ledger_owners_max = 256;

/// Smallest block that comes from the owner's heap (`actors/memory/block_heap.hpp`); smaller ones come from `malloc`.
inline constexpr uint64_t large_block_bytes = uint64_t{32} << 10;

/// Makes the ledger count all later allocations of host memory that ATen makes on this thread for `owner`.
void attribute_allocations(uint32_t owner);

/// Makes the ledger count all later allocations of device memory for `stream` (device::stream::native) for `owner`.
void attribute_stream(const void* stream, uint32_t owner);
/// Ends attribute_stream(); must be called before another stream may have the same handle.
void forget_stream(const void* stream);
/// enter_block() records a block of device memory at address `at` that Torch has allocated for `stream`; remove_block()
/// forgets a block that Torch has freed. They are the functions of models::memory_watch. Both may be called on any
/// thread and call neither Torch nor the device.
void enter_block(const void* at, uint64_t bytes, const void* stream);
void remove_block(const void* at);

/// The kind of memory whose peaks a ledger returns.
enum class counted_memory : uint8_t { host, device };

/// Counts ATen's allocations from its construction to its destruction; several ledgers may exist at the same time.
class allocation_ledger {
 public:
  /// Reserves an owner for each of `ranks` ranks, as long as owners are free, and resets the peaks of these owners.
  explicit allocation_ledger(uint32_t ranks, counted_memory memory = counted_memory::host);
  ~allocation_ledger();
  allocation_ledger(const allocation_ledger&) = delete;
  allocation_ledger& operator=(const allocation_ledger&) = delete;

  /// Returns the owner number of a rank, for attribute_allocations(), attribute_stream() and the functions below.
  [[nodiscard]] uint32_t owner(uint32_t rank) const {
    return rank < owners_.size() ? owners_[rank] : ledger_owners_max - 1;
  }
  /// Returns the largest number of bytes that `owner` had allocated at a time since the ledger was made.
  [[nodiscard]] uint64_t peak_bytes(uint32_t owner) const;
  /// Returns the bytes that `owner` has allocated now.
  [[nodiscard]] uint64_t current_bytes(uint32_t owner) const;

 private:
  std::vector<uint32_t> owners_;  // owner number under which a rank's allocations are counted, by rank
  counted_memory memory_;
};

}  // namespace troupe::actors
