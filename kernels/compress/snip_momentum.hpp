// Pruning by gradient: removes blocks of a weight whose |w g| stays small, a few more in each pruning step. Owns the
// rule for one weight; the caller chooses the pruning steps and the weights. Source: Intel Neural Compressor's
// SnipMomentumCriterion and its cubic scheduler, to which DeepSpeed's `snip_momentum` passes its keys; the schedule is
// that of Zhu, Gupta 2017 (arXiv:1710.01878).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::kernels {

/// Shape of a block whose elements are kept or removed together; `4x1` is 4 rows and 1 column.
struct prune_block {
  uint64_t rows = 4, columns = 1;
};
/// Parses text such as `4x1`. Errors: text that is not two whole numbers from 1 on with an x between.
core::result<prune_block> prune_block_from(std::string_view text);

/// The shape of a weight, out x in, and of its blocks.
struct pruned_matrix {
  uint64_t rows = 0, columns = 0;
  prune_block block;

  [[nodiscard]] uint64_t blocks() const { return rows / block.rows * (columns / block.columns); }
};
/// Checks the blocks of a matrix. Errors: blocks that do not divide the matrix, or are empty.
core::result<void> check(const pruned_matrix& m);

/// Schedule of pruning: at which steps how much is pruned.
struct prune_schedule {
  double dense_ratio = 0.1;  ///< fraction of the elements that is kept at the end
  uint64_t begin = 0, end = 0, stride = 1;

  /// Returns the fraction of elements that is pruned at `step`: 0 before `begin`; from `end` on 1 - dense_ratio;
  /// between them (1 - dense_ratio) * (1 - (1 - t)^3), where t is the fraction of the way from begin to end, recomputed
  /// every `stride` steps. A stride of 0, which check() refuses, counts as 1.
  [[nodiscard]] double sparsity_at(uint64_t step) const;
  /// True if a mask is made at this step: at begin, at every `stride` steps after it, and at end.
  [[nodiscard]] bool is_turn(uint64_t step) const;
};
/// Checks a schedule of pruning. Errors: a ratio outside (0, 1), an end before the begin, a stride of 0.
core::result<void> check(const prune_schedule& s);

/// Factor on an element's previous score in add_saliency().
inline constexpr float snip_momentum = 0.9F;
/// Updates score = snip_momentum * score + |w g| for each weight w and its gradient g; called after each backward pass.
/// Errors: different numbers of scores, weights and gradients.
core::result<void> add_saliency(std::span<float> scores, std::span<const float> weight,
                                std::span<const float> gradient);

/// Returns, for each block, the sum of the scores of its elements, in fp64, rounded once; blocks are ordered row of
/// blocks by row of blocks. Errors: those of check(), and a number of scores that differs from the number of elements.
core::result<std::vector<float>> block_scores(const pruned_matrix& m, std::span<const float> scores);

/// Sets keep[i] to 0 for the elements of the floor(sparsity * number of blocks) blocks with the smallest scores, and to
/// 1 for all other elements; among blocks with equal scores the first are kept. Errors: those of block_scores(), a
/// wrong size of `keep`, a sparsity outside [0, 1].
core::result<void> snip_mask(const pruned_matrix& m, std::span<const float> scores, double sparsity,
                             std::span<uint8_t> keep);

}  // namespace troupe::kernels
