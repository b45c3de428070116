// Checks before a run uses its memory that the host and the device have enough for its plans, because the kernel allows
// more allocations than it has memory and kills the process later. storage/memory/memory_room.hpp measures the free
// memory.
#pragma once

#include "actors/device_of.hpp"
#include "actors/hands/device_room.hpp"
#include "job/blueprint.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::actors {

/// Returns how a job divides the memory of its device between the pools of its plans and Torch; the device must exist.
device_room room_of(const job::blueprint& b);

/// Returns the bytes of host memory that the plans of all ranks of a session need for states, gradient buckets and
/// windows. Activations (which are only predicted) and the staging memory of checkpoints are not counted.
uint64_t needed_bytes(const job::blueprint& b);

/// Checks that the host and the device have the memory that the job needs. Errors: limit, with the bytes needed, the
/// bytes that the host or the device has, and the command that searches for settings (tiers) that need less.
core::result<void> check_memory(const job::blueprint& b,
                                const std::optional<storage::memory_room>& room = storage::free_memory());

}  // namespace troupe::actors
