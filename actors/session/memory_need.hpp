// Checks, before any memory is touched, that there is enough for a run's plans: the kernel hands out more addresses
// than it has memory and kills the process later. storage/memory/memory_room.hpp knows how much there is.
#pragma once

#include "actors/device_of.hpp"
#include "actors/hands/device_room.hpp"
#include "job/blueprint.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::actors {

/// How a job divides the memory of its device, which is there: what it may use, and the pools of its plan.
device_room room_of(const job::blueprint& b);

/// Bytes of the host's memory that all ranks of a session map and touch: states, buckets, windows. Not activations,
/// which are predicted, nor staging for checkpoints.
uint64_t needed_bytes(const job::blueprint& b);

/// Errors: limit, with what is needed, what the host or the device has and which command looks for tiers that need
/// less.
core::result<void> check_memory(const job::blueprint& b,
                                const std::optional<storage::memory_room>& room = storage::free_memory());

}  // namespace troupe::actors
