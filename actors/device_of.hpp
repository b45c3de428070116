// Owns the choice of the device that a job computes on.
#pragma once

#include "config/sections/job_config.hpp"
#include "device/device_id.hpp"

namespace troupe::actors {

/// Returns the one device that all ranks of a job compute on.
inline device::device_id device_of(const config::job_config& c) {
  if (c.device == core::device_kind::cpu) return {};
  return {c.device, c.cuda.devices.front()};
}

}  // namespace troupe::actors
