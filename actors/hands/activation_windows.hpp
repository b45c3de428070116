// Stores the inputs of units (parts of the model) from forward to backward, as tensors over windows: slots of the
// rank's memory whose bytes may be in a swap file meanwhile. Owns the shapes; rank_memory owns the bytes, and the plan
// decides when they move between memory and file.
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
  /// Returns the input of unit `unit` as the last put() has described it: tensors over `window`, which holds the
  /// input's bytes, possibly read back from the swap file.
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
