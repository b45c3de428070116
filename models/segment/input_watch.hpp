// Who wants to see what linear layers multiply with: calibration, which fits weights to it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::models {

class input_watch {
 public:
  input_watch() = default;
  input_watch(const input_watch&) = delete;
  input_watch& operator=(const input_watch&) = delete;
  virtual ~input_watch() = default;

  /// `rows` (N, in) are about to be multiplied with the parameter `weight`. Layers behind one norm are given the same
  /// tensor one after the other.
  virtual void takes(uint32_t weight, const at::Tensor& rows) = 0;
};

}  // namespace troupe::models
