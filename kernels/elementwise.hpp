// What layers do to one element at a time: the tanh form of GELU, and scaling what dropout keeps.
// Owns the loops; shapes and when are the layers' business.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// y = 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3), computed as x * sigmoid(2 u) in fp32, rounded once.
/// `x` and `y` hold `count` elements of `type` (f32, bf16 or f16); they may be the same memory. To about 1e-7 of |x|.
/// Source: Hendrycks and Gimpel 2016 (arXiv:1606.08415), section 2.
void gelu_tanh(const std::byte* x, std::byte* y, core::dtype type, uint64_t count);

/// dx = dy * d gelu_tanh(x) / dx. `dx` may be `dy`.
void gelu_tanh_backward(const std::byte* x, const std::byte* dy, std::byte* dx, core::dtype type, uint64_t count);

/// x[i] = keep[i] ? x[i] * factor : 0, in fp32 (fp64 for f64), rounded once. `keep` holds 0 and 1.
void scale_kept(std::byte* x, core::dtype type, const uint8_t* keep, double factor, uint64_t count);

}  // namespace troupe::kernels
