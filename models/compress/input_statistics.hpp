// Sums over the inputs of a segment's linear layers, over all windows of calibration, which post-training methods use.
// Layers that share an input share its sums.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "models/segment/input_watch.hpp"

namespace troupe::models {

/// Statistics of one input with C columns and N rows, summed over all rows.
struct input_sums {
  std::vector<uint32_t> weights;  ///< weights that were multiplied with the input, in the order of forward
  uint64_t rows = 0;
  at::Tensor products;   ///< (C, C): the sum of x xᵀ; undefined if no method requires it
  at::Tensor drift;      ///< (C, C): the sum of (o - x) xᵀ, where o is the same input in another model; or undefined
  at::Tensor squares;    ///< (C): the sum of x², fp32 like all sums here
  at::Tensor magnitude;  ///< (C): the sum of |x|
  at::Tensor largest;    ///< (C): the largest |x|
};

/// Returns the sums over the input of `weight`; null if `weight` was not multiplied with.
const input_sums* sums_of(const std::vector<input_sums>& all, uint32_t weight);

/// An input_watch that stores the inputs of some weights in one forward, to compare them with those of another forward.
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

/// Options of input_statistics: the sums that are formed, and the inputs that are summed.
struct statistics_options {
  bool wants_products = false;
  std::vector<uint32_t> only{};           ///< weights whose inputs are summed; empty: all
  const kept_inputs* original = nullptr;  ///< kept inputs that drift is relative to; null: no drift
};

/// An input_watch that sums statistics of inputs in the order of forwards; the bits depend on that order alone.
class input_statistics final : public input_watch {
 public:
  explicit input_statistics(statistics_options options) : options_(std::move(options)) {}

  void takes(uint32_t weight, const at::Tensor& rows) override;
  /// Must be called between two forwards.
  void next_window() { last_.reset(); }
  /// Returns the last input of a layer whose statistics were summed, as rows.
  [[nodiscard]] const at::Tensor& latest() const { return last_; }

  [[nodiscard]] const std::vector<input_sums>& inputs() const { return inputs_; }
  [[nodiscard]] const input_sums* of(uint32_t weight) const { return sums_of(inputs_, weight); }

 private:
  statistics_options options_;
  at::Tensor last_;  ///< last input, kept alive because another input might otherwise get its memory
  size_t last_input_ = 0;
  std::vector<input_sums> inputs_;
};

}  // namespace troupe::models
