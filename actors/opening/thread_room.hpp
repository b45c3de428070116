// Checks that the system still allows enough threads before any is needed, because CAF 0.17 terminates the process if
// its scheduler cannot start one.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "core/error.hpp"

namespace troupe::actors {

/// Returns the number of threads of an actor system whose scheduler has `workers` threads: these and the clock's.
constexpr size_t threads_of_system(size_t workers) { return workers + 1; }

/// Checks that the system allows `wanted` more threads, by starting that many at once and ending them again (about 30
/// us each). Threads that another process of the same user or container starts afterwards are not accounted for.
/// Errors: limit, with the number that could be started.
core::result<void> check_thread_room(size_t wanted);

/// Waits until the kernel has removed a joined thread, given by its thread id, because until then the thread counts
/// against the limit of threads.
void wait_until_gone(pid_t thread);

}  // namespace troupe::actors
