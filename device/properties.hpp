// Properties of a device that the layout of memory depends on.
#pragma once

#include <cstdint>
#include <string>

#include "core/error.hpp"
#include "device/device_id.hpp"

namespace troupe::device {

struct properties {              ///< constant properties of one device
  std::string name;              ///< name of the device, such as "cpu"
  uint64_t alignment_bytes = 0;  ///< alignment in bytes of memory of every tier; at least 64
  uint64_t total_bytes = 0;      ///< bytes of the device's own memory; 0 if unknown
};

/// Returns the properties of a device; requires that `check` has accepted the device.
const properties& properties_of(device_id device);

/// Returns an error if this process cannot use the device. Errors: limit, with the missing part: the library that
/// provides the kind, a driver, a device of this index.
core::result<void> check(device_id device);

}  // namespace troupe::device
