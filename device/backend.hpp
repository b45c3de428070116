// A backend is the table of functions by which the folder device/ uses devices of one kind, such as CUDA devices. The
// library for that kind of device registers the table. Owns the list of backends.
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

/// An allocation of device or host memory; its bytes are freed when the last owner of `owner` ends.
struct block {
  std::shared_ptr<void> owner{};
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  std::optional<std::string> remark{};
};

struct backend {
  /// Returns the number of devices of the kind. Errors: limit, with the missing part (driver, device).
  core::result<uint32_t> (*count)();
  /// Returns an error if device `index`, which must be less than the number of devices, cannot compute. Errors: limit,
  /// with the missing part.
  core::result<void> (*check)(uint32_t index);
  const properties& (*properties_of)(uint32_t index);
  /// Allocates `bytes` bytes, which must be more than 0, filled with zeros.
  core::result<block> (*allocate)(uint32_t index, tier where, uint64_t bytes);
  bool (*discard)(void* owner);
  std::shared_ptr<void> (*make_stream)(uint32_t index);
  /// Makes `stream` the one that Torch's operations of the calling thread are queued on, and returns the previous one.
  void* (*make_current)(void* stream);
  void (*copy)(void* stream, std::byte* to, const std::byte* from, uint64_t bytes);
  void (*record)(void* stream, std::shared_ptr<void>& event);
  void (*wait)(void* stream, void* event);
  core::result<void> (*finish)(void* stream);   ///< waits for the stream; errors as for device::stream::finish
  bool (*is_over)(void* event);                 ///< true if all work queued before `event` was recorded is done
  void (*finish_event)(void* event);  ///< blocks the host until all work queued before `event` was recorded is done
  /// Returns the nanoseconds from event `from` to event `to` of the same device; requires that both are over.
  int64_t (*elapsed_ns)(void* from, void* to);
};

/// Makes `b` the backend of `kind`, for as long as the process lives. Must be called once for each kind, before the
/// first use of a device of that kind. The CPU's backend is registered from the start.
void provide(device_kind kind, const backend& b);

/// Returns the backend of a kind; null if no library has registered one.
const backend* provided(device_kind kind);

/// Returns the backend of a device that `check` (properties.hpp) has accepted; throws std::logic_error if no library
/// has registered a backend of that kind.
const backend& backend_of(device_id device);

}  // namespace troupe::device
