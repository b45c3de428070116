// Dropout whose masks are functions of (seed, step, global sample, layer, site, position): the same bits however the
// batch is split. Backward recomputes the masks instead of keeping them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "kernels/layers/dropout.hpp"
#include "models/segment/segment_scope.hpp"

namespace troupe::models {

/// The places in a unit at which dropout is applied; each place has masks of its own.
enum class dropout_site : uint32_t { embedding, attention_weights, attention_output, mlp_output };

/// Draws and applies the dropout masks of one place in a unit. Refers to the arrays of the batch that hold the keys of
/// the masks; these arrays must outlive forward and backward.
class dropout_masks {
 public:
  dropout_masks() = default;
  dropout_masks(const segment_scope& scope, dropout_site site, float probability);

  /// False if no element is dropped: the probability is 0, or the model does not train.
  [[nodiscard]] bool active() const { return probability_ > 0; }

  /// Returns the factor by which kept elements are multiplied.
  [[nodiscard]] double factor() const { return 1.0 / (1.0 - static_cast<double>(probability_)); }

  /// Returns the key with which kernels draw the masks of row `row`.
  [[nodiscard]] kernels::dropout_key key(uint64_t row) const;

  /// Multiplies `x`, contiguous, by the factor if `keep` (bytes, as many) is 1, and by 0 if it is 0.
  void apply(const at::Tensor& x, const at::Tensor& keep) const;

  /// Draws masks for a contiguous (B, T, C) tensor of the scope's columns, each column at its position in the row, and
  /// applies them.
  void apply_rows(const at::Tensor& x) const;
  /// Draws and applies masks for rows (n, C) of a (B, T, C) tensor, the first of which is row `first` of its B x T
  /// rows.
  void apply_rows(const at::Tensor& rows, int64_t first) const;

 private:
  float probability_ = 0;
  dropout_site site_ = dropout_site::embedding;
  uint64_t seed_ = 0, step_ = 0;
  uint32_t layer_ = 0;
  std::span<const uint64_t> samples_;
  core::column_set columns_;
};

/// Returns x + dropout(y), both (B, T, C); the caller must not use y afterwards. Omits x if the scope does not lead.
at::Tensor add_dropped(const segment_scope& scope, const at::Tensor& x, at::Tensor&& y, dropout_site site,
                       float probability);

/// Returns x + y, in y's memory. Omits x if the scope does not lead.
at::Tensor add_past(const segment_scope& scope, const at::Tensor& x, at::Tensor&& y);

}  // namespace troupe::models
