// This machine's speed, measured briefly: the reference for model-FLOPs utilization and for predicted times.
#pragma once

#include "config/sections/job_config.hpp"

namespace troupe::actors {

/// Floating point operations per second of matrix products on one core, or on the whole of another device that the job
/// names, in its parameters' type: best of a few products, 30 ms at most. 0 where the device's work fails, or it has no
/// room for the smallest one. The device is there (device::check).
double measured_matmul_flops(const config::job_config& config);

}  // namespace troupe::actors
