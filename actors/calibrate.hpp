// This machine's speed, measured briefly: the reference for model-FLOPs utilization and for predicted times.
#pragma once

#include "core/device_kind.hpp"
#include "core/dtype.hpp"

namespace troupe::actors {

/// Floating point operations per second of matrix products on one core, or on the whole first device of another kind,
/// in `type`: best of a few products, 30 ms at most. 0 where the device's work fails. The device is there
/// (device::check).
double measured_matmul_flops(core::device_kind kind, core::dtype type);

}  // namespace troupe::actors
