// Defines the pools of a rank that ranks of other processes read and write: which pools, and their offsets in the one
// segment that holds them. Every process computes the same for every rank; other code makes and maps the segment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// True if fabric instructions access this pool.
bool is_shared(plan::pool which);

struct shared_layout {                              ///< layout of one rank's segment
  std::array<uint64_t, plan::num_owners> offset{};  ///< byte offset of each shared pool in the segment, by pool
  uint64_t bytes = 0;
};
/// Returns the layout for a rank that trains by `trains` and whose other plans need no more than `sizes`.
shared_layout shared_layout_of(const plan::rank_plan& trains, const plan::pool_sizes& sizes);

/// A rank's segment as this process maps it, and the owner of the mapping.
struct shared_segment {
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner;
};

}  // namespace troupe::actors
