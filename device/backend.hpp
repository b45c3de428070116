// A backend is the table of functions by which this folder uses a kind of device; the library of the kind registers it.
// Owns the list of backends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "device/memory.hpp"
#include "device/properties.hpp"

namespace troupe::device {

/// An allocation: freed with its owner.
struct block {
  std::shared_ptr<void> owner{};
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  std::optional<std::string> remark{};
};

struct backend {
  /// How many devices of the kind there are. Errors: limit, with what is missing (driver, device).
  core::result<uint32_t> (*count)();
  const properties& (*properties_of)(uint32_t index);
  core::result<block> (*allocate)(uint32_t index, tier where, uint64_t bytes);  ///< more than 0 bytes
  bool (*discard)(void* owner);
  std::shared_ptr<void> (*make_stream)(uint32_t index);
  /// Makes `stream` the one that Torch's operations of the calling thread go to, and returns the one before.
  void* (*make_current)(void* stream);
  void (*copy)(void* stream, std::byte* to, const std::byte* from, uint64_t bytes);
  void (*record)(void* stream, std::shared_ptr<void>& event);
  void (*wait)(void* stream, void* event);
  core::result<void> (*finish)(void* stream);   ///< errors as device::stream::finish
  bool (*is_over)(void* event);                 ///< of an event that was recorded
  void (*finish_event)(void* event);            ///< likewise; the host waits
  int64_t (*elapsed_ns)(void* from, void* to);  ///< between two that are over, of one device
};

/// Makes `b` the backend of `kind`, for as long as the process lives. Called once for each kind, before its first
/// device is used. The CPU has its own from the beginning.
void provide(device_kind kind, const backend& b);

/// The backend of a kind; null where nobody has provided it.
const backend* provided(device_kind kind);

/// The backend of a device that `check` (properties.hpp) has found; throws std::logic_error where there is none.
const backend& backend_of(device_id device);

}  // namespace troupe::device
