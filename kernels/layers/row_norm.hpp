// Layer norm and RMS norm over rows, one pass over memory each way. Own the arithmetic; where weights and gradients
// live is the layers' business. Everything is computed in fp32 and rounded once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Rows whose contributions to the weights' gradients are added up before they are added to the rest.
inline constexpr uint64_t norm_row_grain = 64;

/// The input of a norm: `rows` x `width` elements and one weight for each column, all of `type` (f32, bf16 or f16).
struct norm_input {
  const std::byte* x = nullptr;
  const std::byte* weight = nullptr;
  core::dtype type = core::dtype::f32;
  uint64_t rows = 0, width = 0;
};

/// Further inputs of backward: the output's gradient and, where not null, what reaches x past the norm, added to its
/// gradient before that is rounded.
struct norm_gradient {
  const std::byte* dy = nullptr;
  const std::byte* past = nullptr;
};

/// What a norm keeps for backward, one number for each row in the type that sums are formed in. RMS norm has no mean.
struct norm_rows {
  std::byte* mean = nullptr;
  std::byte* rstd = nullptr;
};

/// y = (x - mean) * rstd * weight + bias, mean over the row and rstd = 1 / sqrt(variance + epsilon); keeps both for
/// backward, one for each row. y may be x. Source: Ba, Kiros, Hinton 2016 (arXiv:1607.06450).
void layer_norm(const norm_input& in, const std::byte* bias, double epsilon, std::byte* y, float* mean, float* rstd);

/// dx, and the sums over rows of the gradients of weight and bias, `width` of each: runs of `norm_row_grain` rows,
/// each in order, added in order. dx may be dy, `past` or x.
void layer_norm_backward(const norm_input& in, const norm_gradient& gradient, const float* mean, const float* rstd,
                         std::byte* dx, float* dweight, float* dbias);

/// y = x * rstd * weight, rstd = 1 / sqrt(mean of squares + epsilon). Source: Zhang, Sennrich 2019 (arXiv:1910.07467).
void rms_norm(const norm_input& in, double epsilon, std::byte* y, float* rstd);
void rms_norm_backward(const norm_input& in, const norm_gradient& gradient, const float* rstd, std::byte* dx,
                       float* dweight);

/// The scalar twins: the same bits for `Wide` float; fp64 throughout for double, the elements' type then being f64.
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
