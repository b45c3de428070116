// What the linear layers of a segment were given, over all windows of calibration: sums that methods choose by. Layers
// that share an input share its sums.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "models/segment/input_watch.hpp"

namespace troupe::models {

/// Of one input of C columns, over N rows.
struct input_sums {
  std::vector<uint32_t> weights;  ///< that were multiplied with it, in the order of forward
  uint64_t rows = 0;
  at::Tensor products;   ///< (C, C): the sum of x xᵀ; undefined where nobody wants it
  at::Tensor drift;      ///< (C, C): the sum of (o - x) xᵀ, o of the same place in another model; or undefined
  at::Tensor squares;    ///< (C): the sum of x², fp32 as all of them
  at::Tensor magnitude;  ///< (C): the sum of |x|
  at::Tensor largest;    ///< (C): the largest |x|
};

/// Null for a weight that was not multiplied with.
const input_sums* sums_of(const std::vector<input_sums>& all, uint32_t weight);

/// What some weights were multiplied with in one forward, to be compared with another one's.
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

/// Which sums, and of which inputs.
struct statistics_options {
  bool wants_products = false;
  std::vector<uint32_t> only{};           ///< weights whose inputs count; empty: all
  const kept_inputs* original = nullptr;  ///< what drift is against, kept before a forward; null: nothing
};

/// Adds up in the order of forwards, so the bits depend on that order alone.
class input_statistics final : public input_watch {
 public:
  explicit input_statistics(statistics_options options) : options_(std::move(options)) {}

  void takes(uint32_t weight, const at::Tensor& rows) override;
  /// Between two forwards.
  void next_window() { last_.reset(); }
  /// The rows of the forward's last input that counts.
  [[nodiscard]] const at::Tensor& latest() const { return last_; }

  [[nodiscard]] const std::vector<input_sums>& inputs() const { return inputs_; }
  [[nodiscard]] const input_sums* of(uint32_t weight) const { return sums_of(inputs_, weight); }

 private:
  statistics_options options_;
  at::Tensor last_;  ///< kept, for another input may come to lie in its memory
  size_t last_input_ = 0;
  std::vector<input_sums> inputs_;
};

}  // namespace troupe::models
