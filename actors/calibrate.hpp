// Measures how fast this machine multiplies matrices: the reference for model-FLOPs utilization and for predicted
// times.
#pragma once

#include "config/sections/job_config.hpp"

namespace troupe::actors {

/// Returns the floating point operations per second of matrix products in the type of the job's parameters: on one core
/// if the job computes on the CPU, else on the job's whole device. Measures for at most 30 ms and returns the best of a
/// few products. Returns 0 if the device's work fails, or the device has no room for the smallest product. The device
/// must exist (device::check).
double measured_matmul_flops(const config::job_config& config);

}  // namespace troupe::actors
