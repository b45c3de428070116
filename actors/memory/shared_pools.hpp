// Defines which of a rank's pools other processes access, and the offsets of these pools in the shared memory segment
// that holds them. Every process computes the same layout for every rank; other code makes and maps the segments.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// True if instructions that move data between ranks (the fabric lane's) access this pool.
bool is_shared(plan::pool which);

struct shared_layout {                              ///< layout of the shared memory segment of one rank
  std::array<uint64_t, plan::num_owners> offset{};  ///< byte offset of each shared pool in the segment, by pool
  uint64_t bytes = 0;
};
/// Returns the layout for a rank that trains by the plan `trains`; `sizes` has the sizes of those pools that depend on
/// the rank's other plans, too.
shared_layout shared_layout_of(const plan::rank_plan& trains, const plan::pool_sizes& sizes);

/// The shared memory segment of a rank as this process maps it, and the object that keeps it mapped.
struct shared_segment {
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner;
};

}  // namespace troupe::actors
