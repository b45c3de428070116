// Checks that the system still allows enough threads before any is needed, because CAF 0.17 terminates the process if
// its scheduler cannot start one.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "core/error.hpp"

namespace troupe::actors {

/// Returns the threads of an actor system with `workers` workers: the workers and the clock.
constexpr size_t threads_of_system(size_t workers) { return workers + 1; }

/// Starts `wanted` threads at once and ends them again: about 30 us each. Threads that another process of the same user
/// or container starts afterwards are not accounted for. Errors: limit, with the number that could be started.
core::result<void> check_thread_room(size_t wanted);

/// Waits until the kernel has removed a joined thread, given by its thread id; until then it counts against the limit.
void wait_until_gone(pid_t thread);

}  // namespace troupe::actors
