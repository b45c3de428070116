// Checks that the system still gives enough threads before any is needed: CAF 0.17 ends the process where its scheduler
// is refused one.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "core/error.hpp"

namespace troupe::actors {

/// Threads of an actor system with `workers` workers: those, and its clock.
constexpr size_t threads_of_system(size_t workers) { return workers + 1; }

/// Starts `wanted` threads at once and ends them again: about 30 us each. What another process of the same user or
/// container takes afterwards is not known here. Errors: limit, with how many there are.
core::result<void> check_thread_room(size_t wanted);

/// Of a thread that has been joined, by its number in the system: it counts until the kernel has taken it down.
void wait_until_gone(pid_t thread);

}  // namespace troupe::actors
