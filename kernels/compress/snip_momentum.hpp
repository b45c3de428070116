// Pruning by the gradient's say: blocks of a weight whose |w g| stays small go, a few more at each turn. Owns the rule,
// one weight at a time; which step is a turn, and what belongs to it, the caller knows.
// Source: Intel Neural Compressor's SnipMomentumCriterion and its cubic scheduler, as DeepSpeed's `snip_momentum` hands
// its keys to them; the schedule is that of Zhu, Gupta 2017 (arXiv:1710.01878).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::kernels {

/// `4x1`: blocks of 4 rows and 1 column, which stay or go as one.
struct prune_block {
  uint64_t rows = 4, columns = 1;
};
/// Refused: text that is not two whole numbers from 1 on with an x between.
core::result<prune_block> prune_block_from(std::string_view text);

/// A weight, out x in, and its blocks.
struct pruned_matrix {
  uint64_t rows = 0, columns = 0;
  prune_block block;

  [[nodiscard]] uint64_t blocks() const { return rows / block.rows * (columns / block.columns); }
};
/// Refused: blocks that do not divide the matrix, or are empty.
core::result<void> check(const pruned_matrix& m);

/// When how much is pruned.
struct prune_schedule {
  double dense_ratio = 0.1;  ///< kept at the end
  uint64_t begin = 0, end = 0, stride = 1;

  /// Nothing before `begin`; then, at every `stride` steps, the share 1 - dense_ratio, less its (1 - t)^3, t being the
  /// part of the way from begin to end; from `end` on all of it. A stride of 0, which check() refuses, is 1.
  [[nodiscard]] double sparsity_at(uint64_t step) const;
  /// Whether a mask is made at this step: begin, every `stride` steps behind it, and end.
  [[nodiscard]] bool is_turn(uint64_t step) const;
};
/// Refused: a ratio outside (0, 1), an end before the begin, a stride of 0.
core::result<void> check(const prune_schedule& s);

/// Of what a score was before.
inline constexpr float snip_momentum = 0.9F;
/// score = snip_momentum * score + |w g|, for each element after each backward pass. Refused: numbers of scores,
/// weights and gradients that differ, scores that share bytes with one of the others.
core::result<void> add_saliency(std::span<float> scores, std::span<const float> weight,
                                std::span<const float> gradient);

/// The sum of its elements' scores for each block, rows of blocks one after the other: in fp64, rounded once. Refused:
/// what check() refuses, another number of scores than elements.
core::result<std::vector<float>> block_scores(const pruned_matrix& m, std::span<const float> scores);

/// keep[i] of each element: the blocks of the largest scores, as many as floor(sparsity * blocks) leaves; of equal ones
/// the first. Refused: what block_scores() refuses, another number of elements to keep, a sparsity outside [0, 1], a
/// mask that shares bytes with the scores.
core::result<void> snip_mask(const pruned_matrix& m, std::span<const float> scores, double sparsity,
                             std::span<uint8_t> keep);

}  // namespace troupe::kernels
