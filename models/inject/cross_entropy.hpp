// The mean cross-entropy of a host's scores over a vocabulary that may be split over the tensor axis; then no rank has
// a whole row of scores. Owns a rank's statistics of a row and how they are combined into the loss, in ATen's
// operations; leaves the exchange of statistics to the plan.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::models {

/// A loss of scores (..., V) and targets (...): the mean over targets other than `ignore_index`. If the last unit's
/// only cut is that of the vocabulary, its output is a rank's own columns of the scores.
struct vocabulary_cross_entropy {
  int64_t ignore_index = -100;
  /// Numbers in a rank's statistics of a row: the greatest of its scores, the sum of e^(score - greatest), and the
  /// target's score, 0 if another rank has the target.
  static constexpr uint64_t row_statistics = 3;

  /// Returns the loss of whole rows.
  at::Tensor operator()(const at::Tensor& scores, const at::Tensor& target) const;

  /// Returns the statistics of each row, (N, row_statistics). `own` are columns from `first` on of `vocabulary`. Throws
  /// if a target is not in the vocabulary.
  [[nodiscard]] at::Tensor statistics(const at::Tensor& own, const at::Tensor& target, int64_t first,
                                      int64_t vocabulary) const;
  /// Returns the loss, with the same bits on every rank, from `gathered` (ranks, N, 3); its gradient goes to `own`
  /// alone.
  [[nodiscard]] at::Tensor joined(const at::Tensor& own, const at::Tensor& gathered, const at::Tensor& target,
                                  int64_t first) const;
};

}  // namespace troupe::models
