#include "device/device_id.hpp"

#include <fmt/format.h>

namespace troupe::device {

std::string name_of(device_id device) {
  const auto kind = name_of(device.kind);
  return device.kind == device_kind::cpu ? std::string(kind) : fmt::format("{}:{}", kind, device.index);
}

}  // namespace troupe::device
