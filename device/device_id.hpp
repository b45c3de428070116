// Names a device, which owns memory and does work. Its abilities are in the other headers and, for arithmetic, in
// kernels/operations.hpp.
#pragma once

#include <cstdint>

namespace troupe::device {

enum class device_kind : uint8_t { cpu };  ///< kinds that have a backend

struct device_id {  ///< a device of this process; by default, the CPU
  device_kind kind = device_kind::cpu;
  uint32_t index = 0;  ///< among devices of its kind
  bool operator==(const device_id&) const = default;
};

}  // namespace troupe::device
