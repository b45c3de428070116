// Names a device: what owns memory and does work. What a device can do is the other headers' and, for arithmetic,
// kernels/operations.hpp's.
#pragma once

#include <cstdint>

namespace troupe::device {

enum class device_kind : uint8_t { cpu };  ///< of which there is a backend

struct device_id {  ///< a device of this process; without more said, the CPU
  device_kind kind = device_kind::cpu;
  uint32_t index = 0;  ///< among devices of its kind
  bool operator==(const device_id&) const = default;
};

}  // namespace troupe::device
