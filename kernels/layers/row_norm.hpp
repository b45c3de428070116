// Layer norm and RMS norm over rows on the CPU, with one pass over memory in forward and one in backward. Owns the
// arithmetic; leaves the memory of weights and gradients to the layers. Everything is computed in fp32 and rounded
// once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Number of rows of a run: contributions to the gradients of weight and bias are added up over a run of rows, then the
/// runs' sums are added in order.
inline constexpr uint64_t norm_row_grain = 64;

/// The input of a norm: `rows` x `width` elements and one weight for each column, all of `type` (f32, bf16 or f16). The
/// factor of a column is its weight plus `shift`, added in fp32.
struct norm_input {
  const std::byte* x = nullptr;
  const std::byte* weight = nullptr;
  core::dtype type = core::dtype::f32;
  uint64_t rows = 0, width = 0;
  float shift = 0;  ///< number added to each weight; 0: the weights are used as they are
};

/// Further inputs of backward: `dy`, the gradient of the output, and `past`, null or the gradient that reaches x
/// through the residual path around the norm; it is added to the gradient of x before that is rounded.
struct norm_gradient {
  const std::byte* dy = nullptr;
  const std::byte* past = nullptr;
};

/// Numbers of each row that forward stores for backward, in fp32 (fp64 for f64). RMS norm has no mean.
struct norm_rows {
  std::byte* mean = nullptr;
  std::byte* rstd = nullptr;
};

/// Computes y = (x - mean) * rstd * factor + bias, with the row's mean and rstd = 1 / sqrt(variance + epsilon); stores
/// mean and rstd of each row for backward. y may be x. Source: Ba, Kiros, Hinton 2016 (arXiv:1607.06450).
void layer_norm(const norm_input& in, const std::byte* bias, double epsilon, std::byte* y, float* mean, float* rstd);

/// Computes dx, and the gradients of weight and bias, `width` numbers each: the sums over rows, formed in runs of
/// `norm_row_grain` rows, the rows of a run in order, then the runs in order. dx may be dy, `past` or x.
void layer_norm_backward(const norm_input& in, const norm_gradient& gradient, const float* mean, const float* rstd,
                         std::byte* dx, float* dweight, float* dbias);

/// Computes y = x * rstd * factor, rstd = 1 / sqrt(mean of squares + epsilon). Source: Zhang, Sennrich 2019
/// (arXiv:1910.07467).
void rms_norm(const norm_input& in, double epsilon, std::byte* y, float* rstd);
void rms_norm_backward(const norm_input& in, const norm_gradient& gradient, const float* rstd, std::byte* dx,
                       float* dweight);

/// Scalar implementations of the norms. With `Wide` = float they have the same bits, for tests; with `Wide` = double
/// and f64 elements they compute in fp64, for models in fp64.
template <class Wide>
void layer_norm_reference(const norm_input& in, const std::byte* bias, double epsilon, std::byte* y, Wide* mean,
                          Wide* rstd);
template <class Wide>
void layer_norm_backward_reference(const norm_input& in, const norm_gradient& gradient, const Wide* mean,
                                   const Wide* rstd, std::byte* dx, Wide* dweight, Wide* dbias);
template <class Wide>
void rms_norm_reference(const norm_input& in, double epsilon, std::byte* y, Wide* rstd);
template <class Wide>
void rms_norm_backward_reference(const norm_input& in, const norm_gradient& gradient, const Wide* rstd, std::byte* dx,
                                 Wide* dweight);

}  // namespace troupe::kernels
