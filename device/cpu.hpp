// The CPU's backend. Internal.
#pragma once

#include "device/backend.hpp"

namespace troupe::device {

extern const backend cpu_backend;

}  // namespace troupe::device
