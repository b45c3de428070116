// Interface of observers of the inputs of linear layers: calibration, which fits quantised weights to these inputs.
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

  /// Called before `rows` (N, in), the inputs of all tokens, are multiplied with the parameter number `weight`. Layers
  /// that read the same norm get the same tensor, one after another.
  virtual void takes(uint32_t weight, const at::Tensor& rows) = 0;
};

}  // namespace troupe::models
