#include "device/backend.hpp"

#include <array>
#include <atomic>
#include <stdexcept>

#include "device/cpu.hpp"

namespace troupe::device {
namespace {

constinit std::array<std::atomic<const backend*>, device_kinds> backends{&cpu_backend, nullptr};

}  // namespace

void provide(device_kind kind, const backend& b) { backends[static_cast<size_t>(kind)] = &b; }

const backend* provided(device_kind kind) { return backends[static_cast<size_t>(kind)]; }

const backend& backend_of(device_id device) {
  if (const backend* found = provided(device.kind)) return *found;
  throw std::logic_error("device " + name_of(device) + " is used without a check that this program provides it");
}

}  // namespace troupe::device
