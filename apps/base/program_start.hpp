// The frame around each program's own work: what it was started with is made usable first, and whether its output has
// arrived is looked at last. Owns the signals, descriptors and the stack that a program inherits, and process 1 of a
// container.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

namespace troupe::apps {

/// Stack that LibTorch and its callers need; a smaller limit is raised, and refused where the hard limit forbids that.
inline constexpr unsigned long stack_bytes_min = 1UL << 20U;

/// The whole of `main`.
int start_program(const std::function<int()>& run);

/// For process 1 of a container, which alone can reap what others leave behind and whose signals the system ignores by
/// default: a child runs the program, while this process reaps, passes signals on and gives the child's exit code. In
/// the child, and where `own` is not 1: nothing.
std::optional<int> serve_as_first_process(pid_t own);

}  // namespace troupe::apps
