// The callback by which long-running work reports its progress and can be stopped.
#pragma once

#include <cstdint>
#include <functional>

namespace troupe::storage {

/// Receives the tensor bytes done so far and the total. Called from one thread at a time, with values that never
/// decrease, after each block of work, which has at most 32 MiB. The result false stops the work with
/// error_kind::stopped; no half-written files remain.
using progress_function = std::function<bool(uint64_t done_bytes, uint64_t total_bytes)>;

}  // namespace troupe::storage
