// Sums over the inputs of a segment's linear layers, over all windows of calibration text, which post-training methods
// need. Layers that read the same input share its sums.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "models/segment/input_watch.hpp"

namespace troupe::models {

/// Sums over one input of linear layers, a matrix with N rows x (tokens) and C columns (channels); all sums are over
/// the rows, in fp32.
struct input_sums {
  /// Numbers of the parameters that were multiplied with the input, in the order of forward.
  std::vector<uint32_t> weights;
  uint64_t rows = 0;
  at::Tensor products;  ///< (C, C): the sum of x xᵀ; undefined if no method requires it
  /// (C, C): sum of (o - x) xᵀ, where o is the same input in the unrounded model; undefined if not requested.
  at::Tensor drift;
  at::Tensor squares;    ///< (C): the sum of x²
  at::Tensor magnitude;  ///< (C): the sum of |x|
  at::Tensor largest;    ///< (C): the largest |x|
};

/// Returns the sums over the input that the parameter `weight` was multiplied with; null if there are none.
const input_sums* sums_of(const std::vector<input_sums>& all, uint32_t weight);

/// An observer of layer inputs that stores the inputs of some weights in one forward, to compare them with the inputs
/// in another model's forward.
class kept_inputs final : public input_watch {
 public:
  explicit kept_inputs(std::vector<uint32_t> of) : of_(std::move(of)) {}
  void takes(uint32_t weight, const at::Tensor& rows) override {
    if (std::ranges::find(of_, weight) != of_.end()) rows_[weight] = rows;
  }
  [[nodiscard]] const at::Tensor& rows(uint32_t weight) const { return rows_.at(weight); }

 private:
  std::vector<uint32_t> of_;
  std::map<uint32_t, at::Tensor> rows_;
};

/// Options of input_statistics: which sums are formed, and of which inputs.
struct statistics_options {
  bool wants_products = false;
  std::vector<uint32_t> only{};  ///< weights whose inputs are summed; empty: all
  /// Inputs of the same layers in the unrounded model, for `drift`; null: `drift` is not computed.
  const kept_inputs* original = nullptr;
};

/// An observer of layer inputs that adds them to the sums of input_sums, in the order of the forward passes; the bits
/// of the sums depend on that order alone.
class input_statistics final : public input_watch {
 public:
  explicit input_statistics(statistics_options options) : options_(std::move(options)) {}

  void takes(uint32_t weight, const at::Tensor& rows) override;
  /// Must be called after each forward pass, so that an input of the next pass at the same address is not taken for the
  /// same input.
  void next_window() { last_.reset(); }
  /// Returns the input that was added last, as rows (tokens, channels).
  [[nodiscard]] const at::Tensor& latest() const { return last_; }

  [[nodiscard]] const std::vector<input_sums>& inputs() const { return inputs_; }
  [[nodiscard]] const input_sums* of(uint32_t weight) const { return sums_of(inputs_, weight); }

 private:
  statistics_options options_;
  /// Input that was added last; kept alive, because another input might otherwise get the same address.
  at::Tensor last_;
  size_t last_input_ = 0;
  std::vector<input_sums> inputs_;
};

}  // namespace troupe::models
