// This machine's speed, measured briefly: the reference for model-FLOPs utilization and for predicted times.
#pragma once

#include "core/dtype.hpp"

namespace troupe::actors {

/// Floating point operations per second of matrix products on one core, in `type`: best of a few products, 30 ms at
/// most.
double measured_matmul_flops(core::dtype type);

}  // namespace troupe::actors
