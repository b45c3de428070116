// A tensor that a function needs in backward: either the tensor itself, or, if the segment keeps fewer activations, the
// preceding function, which recomputes the tensor with the same bits. Owns that choice; the functions recompute.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <utility>

#include "models/segment/function_node.hpp"

namespace troupe::models {

class kept_tensor {
 public:
  kept_tensor() = default;
  /// Keeps `x`, which has its autograd history, for backward: stores `held`, which has the same elements, possibly in
  /// another shape, or the function that can recompute them.
  kept_tensor(const segment_scope& scope, const at::Tensor& x, at::Tensor held) : sizes_(held.sizes()) {
    if (scope.batch().keeps_light) std::tie(maker_, output_) = function_of(x);
    if (maker_ != nullptr && !maker_->makes_again()) maker_.reset();
    if (maker_ == nullptr) held_ = std::move(held);
  }

  [[nodiscard]] bool is_made_again() const { return maker_ != nullptr; }
  /// Returns the tensor, recomputed if necessary. Must be called once, in backward, before the backward of the
  /// preceding function runs.
  [[nodiscard]] at::Tensor take() {
    if (maker_ == nullptr) return std::exchange(held_, {});
    const below_autograd plain;  // otherwise the view would keep its base tensor alive
    return std::exchange(maker_, {})->made_again(output_).view(sizes_);
  }
  void reset() {
    held_.reset();
    maker_.reset();
  }

 private:
  at::Tensor held_;
  std::shared_ptr<function_node> maker_;
  uint32_t output_ = 0;
  c10::SmallVector<int64_t, 4> sizes_;
};

/// Returns a tensor (.., `width`) without memory for its elements, for a result of which only shape and history are
/// read (`micro_batch::wants_output` is false).
at::Tensor without_elements(const at::Tensor& like, int64_t width);

}  // namespace troupe::models
