// The operations that a kind of device provides for the rest of this folder: one table for each kind. Internal.
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
  const properties& (*properties_of)(uint32_t index);
  core::result<block> (*allocate)(uint32_t index, tier where, uint64_t bytes);  ///< more than 0 bytes
  bool (*discard)(void* owner);
  std::shared_ptr<void> (*make_stream)(uint32_t index);
  void (*copy)(void* stream, std::byte* to, const std::byte* from, uint64_t bytes);
  void (*record)(void* stream, std::shared_ptr<void>& event);
  void (*wait)(void* stream, void* event);
  void (*finish)(void* stream);
  bool (*is_over)(void* event);  ///< of an event that was recorded
};

extern const backend cpu_backend;

inline const backend& backend_of(device_id device) {
  switch (device.kind) {
    case device_kind::cpu:
      return cpu_backend;
  }
  return cpu_backend;
}

}  // namespace troupe::device
