#include "device/properties.hpp"

#include <fmt/format.h>

#include "device/backend.hpp"

namespace troupe::device {

const properties& properties_of(device_id device) { return backend_of(device).properties_of(device.index); }

core::result<void> check(device_id device) {
  const backend* found = provided(device.kind);
  const std::string name = name_of(device);
  if (found == nullptr)
    return core::fail(core::error_kind::limit,
                      "device " + name + ": this program has no library for " + std::string(name_of(device.kind)) +
                          " devices; `troupe doctor` shows what is missing, or set device: cpu");
  const auto count = found->count();
  if (!count) return core::fail(count.error().in("device " + name));
  if (device.index >= *count)
    return core::fail(core::error_kind::limit,
                      fmt::format("device {}: wanted cuda.devices with an index below {}, the number of GPUs that this "
                                  "process sees (CUDA_VISIBLE_DEVICES hides others)",
                                  name, *count));
  if (const auto ok = found->check(device.index); !ok) return core::fail(ok.error().in("device " + name));
  return {};
}

}  // namespace troupe::device
