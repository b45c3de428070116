// Inputs of units as tensors over windows of the rank's memory, where backward finds them whether they stayed there or
// went through a file. Owns their shapes; the bytes are rank_memory's, the plan decides when they move.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::actors {

class activation_windows {
 public:
  explicit activation_windows(size_t units) : layouts_(units) {}

  /// Copies `input` into `window` and gives it back as a tensor that lies there, with the same strides where `input`
  /// has no gaps. Refuses an input larger than the window: `name` is the unit's.
  core::result<at::Tensor> put(uint32_t unit, const std::string& name, const at::Tensor& input,
                               std::span<std::byte> window);
  /// The unit's last input, from a window that holds its bytes again.
  [[nodiscard]] at::Tensor get(uint32_t unit, std::byte* window) const;

 private:
  struct layout {
    std::vector<int64_t> sizes, strides;
    at::ScalarType type = at::ScalarType::Float;
  };
  std::vector<layout> layouts_;  // [unit]
};

/// `t` itself, or a copy where it lies in `window`, whose bytes will not last.
at::Tensor out_of_window(const at::Tensor& t, const std::byte* window);

}  // namespace troupe::actors
