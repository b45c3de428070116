// Cross-entropy over a vocabulary, one row at a time: whatever the logits' type, no wide copy of them is made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Elements whose largest is found, and whose powers are then added, while they are in the nearest cache.
inline constexpr uint64_t loss_block = 4096;

/// Of `rows` x `width` logits of `type` (f32, bf16 or f16): log_sums[r] = log(sum of e^x over row r), and returned the
/// sum over the rows, in order, of log_sums[r] less the logit of `targets[r]`, each a column. A row's bits depend on
/// the row alone. The sum is kept beside the largest logit so far and scaled where a block has a larger one.
/// Source: Milakov, Gimelshein 2018 (arXiv:1805.02867), section 3.
double cross_entropy(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width, const int64_t* targets,
                     float* log_sums);

/// In the logits' place their gradient: (e^(x - log_sums[r]) - (1 at the target)) * factor, in fp32, rounded once. Rows
/// are `stride` elements apart, and those behind a row's columns become 0. A target that is no column is another
/// rank's.
void cross_entropy_backward(std::byte* logits, core::dtype type, uint64_t rows, uint64_t width, uint64_t stride,
                            const int64_t* targets, const float* log_sums, double factor);

/// What a rank that has some of a vocabulary's columns tells the others of a row of logits, in the type of sums: its
/// greatest logit, the sum of e^(x - that), and the target's logit, 0 where the target is another rank's.
inline constexpr uint64_t row_statistics = 3;

/// Of `rows` x `width` logits, rows `stride` elements apart: row_statistics for each row. `targets[r]` may be no
/// column. Sums are formed as in cross_entropy.
void cross_entropy_part(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width, uint64_t stride,
                        const int64_t* targets, float* statistics);

/// cross_entropy of rows whose columns lie on `ranks` ranks, from the statistics of all, one rank behind the other
/// `rank_stride` numbers apart. Ranks are added in their order.
template <class Wide>
double joined_cross_entropy(const Wide* statistics, uint64_t ranks, uint64_t rank_stride, uint64_t rows,
                            Wide* log_sums);

/// The scalar twins: the same bits for `Wide` float; fp64 throughout for double, the logits then being f64.
template <class Wide>
double cross_entropy_reference(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                               const int64_t* targets, Wide* log_sums);
template <class Wide>
void cross_entropy_part_reference(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                                  uint64_t stride, const int64_t* targets, Wide* statistics);
template <class Wide>
void cross_entropy_backward_reference(std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                                      uint64_t stride, const int64_t* targets, const Wide* log_sums, double factor);

}  // namespace troupe::kernels
