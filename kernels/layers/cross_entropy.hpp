// Cross-entropy over a vocabulary on the CPU, one row of logits at a time, without an fp32 copy of the logits, whatever
// their type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Number of logits of a block: the largest is found and the exponentials are added while the block is in the
/// first-level cache.
inline constexpr uint64_t loss_block = 4096;

/// How the loss of a row is formed of its logits x over V columns, the target t and L = log(sum of e^x):
///   L - (1 - label_smoothing) * x[t] - label_smoothing / V * (sum of x) + z_loss * L^2.
/// Sources: label smoothing, Szegedy et al. 2015 (arXiv:1512.00567), as torch's cross_entropy has it; z-loss, Chowdhery
/// et al. 2022 (arXiv:2204.02311), section 5.
struct loss_form {
  double label_smoothing = 0;  ///< part of the wanted probability that all V columns share equally; from 0 to 1
  double z_loss = 0;           ///< factor of L^2, which keeps L near 0; at least 0
  uint64_t vocabulary = 1;     ///< V, the number of columns of all ranks; read if there is label smoothing
  bool operator==(const loss_form&) const = default;
  /// True if the loss is the cross-entropy alone.
  [[nodiscard]] bool is_plain() const { return label_smoothing == 0 && z_loss == 0; }
  /// Returns the part of the wanted probability that each column gets.
  [[nodiscard]] double share() const { return label_smoothing / static_cast<double>(vocabulary); }
};

/// Computes the cross-entropy of `rows` x `width` logits of `type` (f32, bf16 or f16): sets log_sums[r] = log(sum of
/// e^x over row r), and returns the sum over the rows, in order, of log_sums[r] less the logit of `targets[r]`, which
/// is a column, or of the losses that `form` describes, each times weights[r] unless `weights` is null. A row whose
/// target is core::no_target adds nothing, and its log_sums[r] is infinite. A row's bits depend on the row alone. The
/// running sum is relative to the largest logit so far, and is scaled when a block has a larger one. Source: Milakov,
/// Gimelshein 2018 (arXiv:1805.02867), section 3.
double cross_entropy(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width, const int64_t* targets,
                     float* log_sums, const loss_form& form = {}, const float* weights = nullptr);

/// Replaces the logits by their gradient: (e^(x - log_sums[r]) - (1 at the target, else 0)) * factor, in fp32, rounded
/// once; with `form`, (e^(x - L) * (1 + 2 z_loss L) - share - (1 - label_smoothing at the target, else 0)) * factor. If
/// `weights` is not null, the factor of row r is factor * weights[r], rounded to fp32 (fp64 for f64).
/// Rows are `stride` elements apart, and the elements between a row's last column and the next row become 0. A
/// target that is not one of the `width` columns belongs to another rank, and 1 is subtracted nowhere; a row without a
/// target has the gradient 0.
void cross_entropy_backward(std::byte* logits, core::dtype type, uint64_t rows, uint64_t width, uint64_t stride,
                            const int64_t* targets, const float* log_sums, double factor, const loss_form& form = {},
                            const float* weights = nullptr);

/// How many numbers per row a rank that has only some of a vocabulary's columns sends to the other ranks: its greatest
/// logit, the sum of e^(x - greatest), and the target's logit, or 0 if another rank has the target's column. With label
/// smoothing the third number is (1 - label_smoothing) * (that logit) + share * (sum of this rank's logits), so that
/// its sum over the ranks is what the loss subtracts. The second number of a row without a target is -1.
inline constexpr uint64_t row_statistics = 3;

/// Computes row_statistics numbers for each of `rows` rows of `width` logits, which are this rank's columns; rows are
/// `stride` elements apart. `targets[r]` may be outside of these columns. Sums are formed as in cross_entropy.
void cross_entropy_part(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width, uint64_t stride,
                        const int64_t* targets, float* statistics, const loss_form& form = {});

/// Returns the result of cross_entropy for rows whose columns are spread over `ranks` ranks, and sets log_sums, from
/// the statistics of all ranks, which are `rank_stride` numbers apart. Ranks are added in their order.
template <class Wide>
double joined_cross_entropy(const Wide* statistics, uint64_t ranks, uint64_t rank_stride, uint64_t rows, Wide* log_sums,
                            const loss_form& form = {}, const float* weights = nullptr);

/// Scalar implementations of cross_entropy, cross_entropy_part and cross_entropy_backward. With `Wide` = float they
/// have the same bits, for tests; with `Wide` = double and f64 logits they compute in fp64, for models in fp64.
template <class Wide>
double cross_entropy_reference(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                               const int64_t* targets, Wide* log_sums, const loss_form& form = {},
                               const float* weights = nullptr);
template <class Wide>
void cross_entropy_part_reference(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                                  uint64_t stride, const int64_t* targets, Wide* statistics,
                                  const loss_form& form = {});
template <class Wide>
void cross_entropy_backward_reference(std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                                      uint64_t stride, const int64_t* targets, const Wide* log_sums, double factor,
                                      const loss_form& form = {}, const float* weights = nullptr);

}  // namespace troupe::kernels
