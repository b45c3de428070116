// Facts about a device that are needed to lay out memory.
#pragma once

#include <cstdint>
#include <string>

#include "core/error.hpp"
#include "device/device_id.hpp"

namespace troupe::device {

struct properties {              ///< constant facts of one device
  std::string name;              ///< "cpu"
  uint64_t alignment_bytes = 0;  ///< memory of every tier starts at a multiple of it; at least 64
  uint64_t total_bytes = 0;      ///< of its own memory; 0 where it is not known
};

/// The facts of a device that `check` has found.
const properties& properties_of(device_id device);

/// Whether this process can use the device. Errors: limit, with what is missing: the library that provides the kind, a
/// driver, a device of this index.
core::result<void> check(device_id device);

}  // namespace troupe::device
