// The mean cross-entropy of a host's scores over a vocabulary that may be cut over the tensor axis: no rank has a whole
// row of scores then. Owns what a rank knows of a row and how the ranks' parts become the loss, in ATen's operations;
// who gathers them is the plan's exchange.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::models {

/// As a loss: of scores (..., V) and targets (...), the mean over targets that are not `ignore_index`. Where the last
/// unit's only cut is that of the vocabulary, its output are a rank's own columns of the scores.
struct vocabulary_cross_entropy {
  int64_t ignore_index = -100;
  /// Numbers that a rank knows of a row: the greatest of its scores, the sum of powers below it, the target's score or
  /// 0.
  static constexpr uint64_t row_statistics = 3;

  /// Of whole rows.
  at::Tensor operator()(const at::Tensor& scores, const at::Tensor& target) const;

  /// Of each row (N, row_statistics). `own` are columns from `first` on of `vocabulary`. Throws where a target is none
  /// of these.
  [[nodiscard]] at::Tensor statistics(const at::Tensor& own, const at::Tensor& target, int64_t first,
                                      int64_t vocabulary) const;
  /// The loss, the same bits on every rank, from `gathered` (ranks, N, 3); its gradient goes to `own` alone.
  [[nodiscard]] at::Tensor joined(const at::Tensor& own, const at::Tensor& gathered, const at::Tensor& target,
                                  int64_t first) const;
};

}  // namespace troupe::models
