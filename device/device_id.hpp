// Identifies a device: a processor with memory of its own. Other headers of device/ declare memory, streams and
// properties of devices; kernels/operations.hpp declares their arithmetic.
#pragma once

#include <cstdint>
#include <string>

#include "core/system/device_kind.hpp"

namespace troupe::device {

using core::device_kind;
using core::device_kinds;
using core::name_of;

struct device_id {  ///< a device of this process; by default, the CPU
  device_kind kind = device_kind::cpu;
  uint32_t index = 0;  ///< number of the device among the devices of its kind, from 0
  bool operator==(const device_id&) const = default;
};

/// Returns a device's name: "cpu", "cuda:0".
std::string name_of(device_id device);

}  // namespace troupe::device
