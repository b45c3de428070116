// Inputs of units as tensors over windows of the rank's memory, where backward finds them whether they stayed there or
// went through a file. Owns their shapes; the bytes are rank_memory's, the plan decides when they move.
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

  /// Copies `input` into `window` and gives it back as tensors that lie there, with the same strides where they have no
  /// gaps. Refuses an input larger than the window: `name` is the unit's.
  core::result<models::values> put(uint32_t unit, const std::string& name, const models::values& input,
                                   std::span<std::byte> window);
  /// The unit's last input, from a window that holds its bytes again.
  [[nodiscard]] models::values get(uint32_t unit, std::byte* window) const;

 private:
  struct layout {
    uint64_t offset = 0;
    std::vector<int64_t> sizes, strides;
    at::ScalarType type = at::ScalarType::Float;
  };
  std::vector<std::vector<layout>> layouts_;  // [unit][tensor]
};

}  // namespace troupe::actors
