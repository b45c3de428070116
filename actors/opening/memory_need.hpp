// Checks that the memory is enough for a run's plans before any of it is used, because the kernel hands out more
// addresses than it has memory and kills the process later. storage/memory/memory_room.hpp measures the free memory.
#pragma once

#include "actors/device_of.hpp"
#include "actors/hands/device_room.hpp"
#include "job/blueprint.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::actors {

/// Returns how a job divides the memory of its device, which must exist: the bytes that it may use, and the pools of
/// its plan.
device_room room_of(const job::blueprint& b);

/// Returns the bytes of host memory that all ranks of a session map and touch: states, buckets, windows. Does not count
/// activations, which are predicted, and staging for checkpoints.
uint64_t needed_bytes(const job::blueprint& b);

/// Checks that the host and the device have the memory that the job needs. Errors: limit, with the bytes needed, the
/// bytes that the host or the device has, and the command that searches for tiers that need less.
core::result<void> check_memory(const job::blueprint& b,
                                const std::optional<storage::memory_room>& room = storage::free_memory());

}  // namespace troupe::actors
