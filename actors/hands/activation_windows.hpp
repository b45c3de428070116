// Stores inputs of units as tensors over windows of the rank's memory; backward finds them there, also after they went
// through a file. Owns the shapes; rank_memory owns the bytes, and the plan decides when they move.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "models/segment/values.hpp"

namespace troupe::actors {

class activation_windows {
 public:
  explicit activation_windows(size_t units) : layouts_(units) {}

  /// Copies `input` into `window` and returns tensors over the copy, with the same strides if these leave no gaps.
  /// Returns an error for an input larger than the window; `name` is the unit's name.
  core::result<models::values> put(uint32_t unit, const std::string& name, const models::values& input,
                                   std::span<std::byte> window);
  /// Returns the last stored input of the unit, out of a window into which it was read back.
  [[nodiscard]] models::values get(uint32_t unit, std::byte* window) const;

 private:
  struct layout {
    uint64_t offset = 0;
    std::vector<int64_t> sizes, strides;
    at::ScalarType type = at::ScalarType::Float;
  };
  // [unit][tensor]: offset, shape and dtype of the unit's stored input in its window
  std::vector<std::vector<layout>> layouts_;
};

}  // namespace troupe::actors
