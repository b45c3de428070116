// How long-running work reports its progress and can be stopped.
#pragma once

#include <cstdint>
#include <functional>

namespace troupe::checkpoint {

/// Bytes of tensors done so far and of all. Called from one thread at a time, with values that never fall, at least
/// every progress_step_bytes and once at the end. False ends the work: error_kind::stopped, nothing half-written stays.
using progress_function = std::function<bool(uint64_t done_bytes, uint64_t total_bytes)>;

/// Between two calls at most; a call costs a few nanoseconds beside them.
inline constexpr uint64_t progress_step_bytes = uint64_t{4} << 20;

}  // namespace troupe::checkpoint
