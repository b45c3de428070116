// Converts Troupe's device identifiers to Torch's and back. No other file depends on both.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include "device/device_id.hpp"

namespace troupe::models {

inline at::Device torch_device(device::device_id id) {
  switch (id.kind) {
    case device::device_kind::cpu:
      return {at::kCPU};
    case device::device_kind::cuda:
      return {at::kCUDA, static_cast<at::DeviceIndex>(id.index)};
  }
  return {at::kCPU};
}

/// Returns Troupe's device for a Torch device; throws c10::Error for an unsupported one.
inline device::device_id device_of(at::Device where) {
  if (where.is_cuda()) return {device::device_kind::cuda, static_cast<uint32_t>(where.index())};
  TORCH_CHECK(where.is_cpu(), "tensors of a model must be on the CPU or on a CUDA device, got one on ", where);
  return {};
}

}  // namespace troupe::models
