// Wraps `main` of each program: first repairs the signals, descriptors and stack limit that the program inherits, and
// last checks that its output was written. Owns process 1 of a container.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

namespace troupe::apps {

/// Stack in bytes that LibTorch and its callers need. A smaller limit is raised; if the hard limit forbids that, the
/// program refuses to start.
inline constexpr unsigned long stack_bytes_min = 1UL << 20U;

/// Runs `run` as the whole of `main`, and returns the exit code.
int start_program(const std::function<int()>& run);

/// Serves as process 1 of a container, which must reap orphans and for which the kernel ignores signals without a
/// handler: starts a child that runs the program, while this process reaps, forwards signals and returns the child's
/// exit code. Returns nothing in the child, and in a process whose id `own` is not 1, so that the caller runs the
/// program.
std::optional<int> serve_as_first_process(pid_t own);

}  // namespace troupe::apps
