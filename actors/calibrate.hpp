// Measures this machine's speed briefly: the reference for model-FLOPs utilization and for predicted times.
#pragma once

#include "config/sections/job_config.hpp"

namespace troupe::actors {

/// Returns the floating point operations per second of matrix products on one core, or on the whole of another device
/// that the job names, in the type of its parameters: best of a few products, 30 ms at most. Returns 0 if the device's
/// work fails, or the device has no room for the smallest product. The device must exist (device::check).
double measured_matmul_flops(const config::job_config& config);

}  // namespace troupe::actors
