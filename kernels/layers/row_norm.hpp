// Layer norm and RMS norm over rows, one pass over memory in each direction. Owns the arithmetic; leaves the memory of
// weights and gradients to the layers. Everything is computed in fp32 and rounded once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Rows whose contributions to the weights' gradients are added up before they are added to the other rows' sum.
inline constexpr uint64_t norm_row_grain = 64;

/// The input of a norm: `rows` x `width` elements and one weight for each column, all of `type` (f32, bf16 or f16).
struct norm_input {
  const std::byte* x = nullptr;
  const std::byte* weight = nullptr;
  core::dtype type = core::dtype::f32;
  uint64_t rows = 0, width = 0;
};

/// Further inputs of backward: the output's gradient and, if not null, the gradient that reaches x on a path around the
/// norm (`past`), added to the gradient of x before that is rounded.
struct norm_gradient {
  const std::byte* dy = nullptr;
  const std::byte* past = nullptr;
};

/// Numbers that a norm keeps for backward, one for each row in the type that sums are formed in. RMS norm has no mean.
struct norm_rows {
  std::byte* mean = nullptr;
  std::byte* rstd = nullptr;
};

/// Computes y = (x - mean) * rstd * weight + bias, with the row's mean and rstd = 1 / sqrt(variance + epsilon); stores
/// both for backward, one of each per row. y may be x. Source: Ba, Kiros, Hinton 2016 (arXiv:1607.06450).
void layer_norm(const norm_input& in, const std::byte* bias, double epsilon, std::byte* y, float* mean, float* rstd);

/// Computes dx, and the sums over rows of the gradients of weight and bias, `width` of each: in runs of
/// `norm_row_grain` rows, rows of a run in order, runs in order. dx may be dy, `past` or x.
void layer_norm_backward(const norm_input& in, const norm_gradient& gradient, const float* mean, const float* rstd,
                         std::byte* dx, float* dweight, float* dbias);

/// Computes y = x * rstd * weight, rstd = 1 / sqrt(mean of squares + epsilon). Source: Zhang, Sennrich 2019
/// (arXiv:1910.07467).
void rms_norm(const norm_input& in, double epsilon, std::byte* y, float* rstd);
void rms_norm_backward(const norm_input& in, const norm_gradient& gradient, const float* rstd, std::byte* dx,
                       float* dweight);

/// The scalar twins of the norms: the same bits if `Wide` is float; fp64 throughout if it is double, with f64 elements.
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
