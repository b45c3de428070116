// Operations of layers on one element at a time: the tanh form of GELU, SiLU times a gate, and scaling after dropout.
// Owns the loops; leaves shapes and order to the layers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Computes y = 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3), as x / (1 + e^(-2 u)) in fp32, rounded once.
/// `x` and `y` hold `count` elements of `type` (f64 is computed in fp64, by scalar code); they may be the same
/// memory. Exact to about 1e-7 of |x|. Source: Hendrycks and Gimpel 2016 (arXiv:1606.08415), section 2.
void gelu_tanh(const std::byte* x, std::byte* y, core::dtype type, uint64_t count);

/// Computes dx = dy * d gelu_tanh(x) / dx. `dx` may be `dy`. If `y` is not null it receives gelu_tanh(x) again, bit for
/// bit; it may be `x`.
void gelu_tanh_backward(const std::byte* x, const std::byte* dy, std::byte* dx, core::dtype type, uint64_t count,
                        std::byte* y = nullptr);

/// Computes y = gate * sigmoid(gate) * up in fp32, rounded once: the inner part of a SwiGLU layer. `y` may be either
/// input. Source: Shazeer 2020 (arXiv:2002.05202), section 2.
void silu_gated(const std::byte* gate, const std::byte* up, std::byte* y, core::dtype type, uint64_t count);

/// Computes the gradients of both inputs of silu_gated, and its output again if `y` is not null. Each result may be
/// stored in `gate`, `up` or `dy`, but no two results in the same one.
void silu_gated_backward(const std::byte* gate, const std::byte* up, const std::byte* dy, std::byte* dgate,
                         std::byte* dup, core::dtype type, uint64_t count, std::byte* y = nullptr);

/// Scalar implementations of the activations: for f32, bf16 and f16 with the same bits, for tests; for f64 the
/// functions themselves call them, and they compute in fp64.
void gelu_tanh_reference(const std::byte* x, std::byte* y, core::dtype type, uint64_t count);
void gelu_tanh_backward_reference(const std::byte* x, const std::byte* dy, std::byte* dx, core::dtype type,
                                  uint64_t count, std::byte* y = nullptr);
void silu_gated_reference(const std::byte* gate, const std::byte* up, std::byte* y, core::dtype type, uint64_t count);
void silu_gated_backward_reference(const std::byte* gate, const std::byte* up, const std::byte* dy, std::byte* dgate,
                                   std::byte* dup, core::dtype type, uint64_t count, std::byte* y = nullptr);

/// Applies a dropout mask: sets x[i] = keep[i] ? x[i] * factor : 0, in fp32 (fp64 for f64), rounded once. keep[i] is 0
/// or 1.
void scale_kept(std::byte* x, core::dtype type, const uint8_t* keep, double factor, uint64_t count);

}  // namespace troupe::kernels
