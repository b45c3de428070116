// Puts numbers of the host where a device can read them. No copy if the device reads the host's memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <cstdint>
#include <span>

namespace troupe::models {

/// The numbers as a read-only tensor of one dimension on `where`. On the CPU it is a view of them, so they must outlive
/// it.
inline at::Tensor on_device(std::span<const int64_t> numbers, at::Device where) {
  return at::from_blob(const_cast<int64_t*>(numbers.data()), {static_cast<int64_t>(numbers.size())}, at::kLong)
      .to(where);
}

/// The same of 32-bit numbers below 2^31.
inline at::Tensor on_device(std::span<const uint32_t> numbers, at::Device where) {
  return at::from_blob(const_cast<uint32_t*>(numbers.data()), {static_cast<int64_t>(numbers.size())}, at::kInt)
      .to(where);
}

}  // namespace troupe::models
