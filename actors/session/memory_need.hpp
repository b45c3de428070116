// Whether the memory that a run's plans take is there, asked before any of it is touched: the kernel gives addresses
// for more than it has, and ends the process later. What is there is storage/memory/memory_room.hpp's.
#pragma once

#include "job/blueprint.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::actors {

/// Bytes of all ranks that a session maps and touches: states, buckets, windows. Not activations, which are predicted,
/// nor staging for checkpoints.
uint64_t needed_bytes(const job::blueprint& b);

/// Errors: limit, with what is needed, what is there and which command looks for tiers that need less.
core::result<void> check_memory(const job::blueprint& b,
                                const std::optional<storage::memory_room>& room = storage::free_memory());

}  // namespace troupe::actors
