// Our devices as Torch's. The only place where the two lists meet.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include "device/device_id.hpp"

namespace troupe::models {

inline at::Device torch_device(device::device_id id) {
  switch (id.kind) {
    case device::device_kind::cpu:
      return {at::kCPU};
  }
  return {at::kCPU};
}

/// The inverse; throws c10::Error for a device that there is no backend for.
inline device::device_id device_of(at::Device where) {
  TORCH_CHECK(where.is_cpu(), "tensors of a model lie on the CPU, got one on ", where);
  return {};
}

}  // namespace troupe::models
