// What the linear layers of a segment were given, over all windows of calibration: sums that methods choose by. Layers
// that share an input share its sums.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "models/layers/input_watch.hpp"

namespace troupe::models {

/// Of one input of C columns, over N rows.
struct input_sums {
  std::vector<uint32_t> weights;  ///< that were multiplied with it, in the order of forward
  uint64_t rows = 0;
  at::Tensor products;   ///< (C, C): the sum of x xᵀ; undefined where nobody wants it
  at::Tensor squares;    ///< (C): the sum of x², fp32 as all of them
  at::Tensor magnitude;  ///< (C): the sum of |x|
  at::Tensor largest;    ///< (C): the largest |x|
};

/// Adds up in the order of forwards, so the bits depend on that order alone.
class input_statistics final : public input_watch {
 public:
  explicit input_statistics(bool wants_products) : wants_products_(wants_products) {}

  void takes(uint32_t weight, const at::Tensor& rows) override;
  /// Between two forwards.
  void next_window() { last_.reset(); }

  [[nodiscard]] const std::vector<input_sums>& inputs() const { return inputs_; }
  /// Null for a weight that was not multiplied with.
  [[nodiscard]] const input_sums* of(uint32_t weight) const;

 private:
  bool wants_products_;
  at::Tensor last_;  ///< kept, for another input may come to lie in its memory
  size_t last_input_ = 0;
  std::vector<input_sums> inputs_;
};

}  // namespace troupe::models
