// Declares the backend of the CPU (backend.hpp). Internal to device/.
#pragma once

#include "device/backend.hpp"

namespace troupe::device {

extern const backend cpu_backend;

}  // namespace troupe::device
