// The mean cross-entropy of a host's scores over a vocabulary, whose columns may be split over tensor-parallel ranks,
// so that no rank has a whole row of scores. Owns a rank's statistics of a row and how they are combined into the loss,
// in ATen's operations; leaves the exchange of statistics to the plan.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::models {

/// A loss function for a host's model, of scores (..., V) and targets (...): the mean over targets other than
/// `ignore_index`. With this loss, the last unit's output may stay split: if only its vocabulary is cut, each rank has
/// its own columns of the scores.
struct vocabulary_cross_entropy {
  int64_t ignore_index = -100;
  /// How many numbers a rank computes for each row: the greatest of its scores, the sum of e^(score - greatest), and
  /// the target's score, or 0 if another rank has the target's column.
  static constexpr uint64_t row_statistics = 3;

  /// Returns the loss for scores whose rows are not split.
  at::Tensor operator()(const at::Tensor& scores, const at::Tensor& target) const;

  /// Returns this rank's statistics of each row, (N, row_statistics). `own` has the columns from `first` on of all
  /// `vocabulary` columns. Throws if a target is not in the vocabulary.
  [[nodiscard]] at::Tensor statistics(const at::Tensor& own, const at::Tensor& target, int64_t first,
                                      int64_t vocabulary) const;
  /// Returns the loss, with the same bits on every rank, from `gathered` (ranks, N, row_statistics), the statistics of
  /// all ranks. In backward, `own`, this rank's columns of the scores, gets its gradient.
  [[nodiscard]] at::Tensor joined(const at::Tensor& own, const at::Tensor& gathered, const at::Tensor& target,
                                  int64_t first) const;
};

}  // namespace troupe::models
