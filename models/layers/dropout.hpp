// Dropout whose masks are functions of (seed, step, global sample number, layer, site, position), so that the bits do
// not depend on how the batch is split over ranks. Backward recomputes the masks instead of keeping them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "kernels/layers/dropout.hpp"
#include "models/segment/segment_scope.hpp"

namespace troupe::models {

/// The sites in a unit at which dropout is applied; each site has masks of its own.
enum class dropout_site : uint32_t { embedding, attention_weights, attention_output, mlp_output };

/// Returns the site of the dropout before the adapter with the number `index` in its unit; these sites follow the named
/// ones.
constexpr dropout_site adapter_site(uint32_t index) {
  constexpr uint32_t first = 16;
  return static_cast<dropout_site>(first + index);
}

/// The dropout masks of one site in one unit, for all samples of a micro-batch. Refers to arrays of the batch, which
/// must outlive forward and backward.
class dropout_masks {
 public:
  dropout_masks() = default;
  dropout_masks(const segment_scope& scope, dropout_site site, float probability);

  /// False if dropout is off: the probability is 0, or the model is not in training.
  [[nodiscard]] bool active() const { return probability_ > 0; }

  /// Returns the factor on elements that dropout keeps, 1 / (1 - probability).
  [[nodiscard]] double factor() const { return 1.0 / (1.0 - static_cast<double>(probability_)); }

  /// Returns the names from which kernels draw the mask of row (sample) `row` of the micro-batch.
  [[nodiscard]] kernels::dropout_key key(uint64_t row) const;

  /// Multiplies each element of the contiguous tensor `x` by factor() if its byte in `keep` is 1, and by 0 if it is 0.
  void apply(const at::Tensor& x, const at::Tensor& keep) const;

  /// Applies dropout in place to a contiguous (B, T', C) tensor that has the T' columns of the scope; masks depend on
  /// each column's position in the whole row.
  void apply_rows(const at::Tensor& x) const;
  /// Applies dropout in place to some rows (n, C) of a (B, T', C) tensor; `first` is the index of the first of them
  /// among its B x T' rows.
  void apply_rows(const at::Tensor& rows, int64_t first) const;

 private:
  float probability_ = 0;
  dropout_site site_ = dropout_site::embedding;
  uint64_t seed_ = 0, step_ = 0;
  uint32_t layer_ = 0;
  std::span<const uint64_t> samples_;
  core::column_set columns_;
};

/// Which tensor-parallel ranks add a tensor to their summand of a segment's output.
enum class added_by : uint8_t {
  leader,  ///< one rank, segment_scope::leads(), because all ranks have the same tensor, such as the residual path
  all      ///< every rank, because each has a summand of the tensor
};

/// Returns x + dropout(y), both (B, T, C), possibly in y's memory; the caller must not use y afterwards. Omits x if
/// another rank adds it.
at::Tensor add_dropped(const segment_scope& scope, const at::Tensor& x, at::Tensor&& y, dropout_site site,
                       float probability, added_by who = added_by::leader);

/// Returns dropout(y), possibly in y's memory; the caller must not use y afterwards.
at::Tensor dropped(const segment_scope& scope, at::Tensor&& y, dropout_site site, float probability);

/// Returns x + scale * y, each operation rounded, possibly in y's memory; the caller must not use y afterwards. Omits x
/// if another rank adds it.
at::Tensor add_past(const segment_scope& scope, const at::Tensor& x, at::Tensor&& y, double scale = 1,
                    added_by who = added_by::leader);

}  // namespace troupe::models
