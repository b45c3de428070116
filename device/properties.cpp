#include "device/properties.hpp"

#include "device/backend.hpp"

namespace troupe::device {

const properties& properties_of(device_id device) { return backend_of(device).properties_of(device.index); }

}  // namespace troupe::device
