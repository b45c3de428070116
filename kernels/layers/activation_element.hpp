// Each activation, and the scaling after dropout, for one element. The scalar CPU code, the fp64 code and the CUDA
// kernels call these functions; the SIMD loops use the same operations in the same order, so their bits are equal.
#pragma once

#include <algorithm>

#include "kernels/base/device.hpp"
#include "kernels/base/exponential.hpp"

namespace troupe::kernels {

/// Largest |t| for which 2^t is computed. Larger arguments are clamped to it, so that every power is a normal float.
inline constexpr double power_max = 126;

/// Coefficients of the exponent t of gelu_tanh(x) = x / (1 + 2^t): t = x (gelu_first + gelu_third x^2) = -2 log2(e)
/// sqrt(2 / pi) (x + 0.044715 x^3).
inline constexpr double gelu_first = -2.302208198144325;
inline constexpr double gelu_third = -0.1029432395800235;
/// Coefficients of the derivative of u, where gelu_tanh(x) = x sigmoid(u): du/dx = gelu_slope_first + gelu_slope_third
/// x^2.
inline constexpr double gelu_slope_first = 1.5957691216057308;
inline constexpr double gelu_slope_third = 0.21406444881780076;
/// Coefficient of SiLU's exponent: t = -log2(e) x in sigmoid(x) = 1 / (1 + 2^t).
inline constexpr double silu_first = -1.4426950408889634;

template <class T>
TROUPE_HOST_DEVICE T bounded_power(T t) {
  return power_of_two(std::min(std::max(t, static_cast<T>(-power_max)), static_cast<T>(power_max)));
}

template <class T>
TROUPE_HOST_DEVICE T gelu_element(T x) {
  const T t = (static_cast<T>(gelu_first) + static_cast<T>(gelu_third) * (x * x)) * x;
  return x / (T{1} + bounded_power(t));
}

template <class T>
TROUPE_HOST_DEVICE T gelu_slope(T x) {
  const T square = x * x;
  const T s = T{1} / (T{1} + bounded_power((static_cast<T>(gelu_first) + static_cast<T>(gelu_third) * square) * x));
  const T slope = static_cast<T>(gelu_slope_first) + static_cast<T>(gelu_slope_third) * square;
  return s + (x * slope) * (s * (T{1} - s));
}

template <class T>
TROUPE_HOST_DEVICE T sigmoid_element(T x) {
  return T{1} / (T{1} + bounded_power(static_cast<T>(silu_first) * x));
}

template <class T>
TROUPE_HOST_DEVICE T silu_gated_element(T gate, T up) {
  return gate * sigmoid_element(gate) * up;
}

/// The gradients of both inputs of a gated activation, and its recomputed output.
template <class T>
struct gated_gradient {
  T gate, up, y;
};
template <class T>
TROUPE_HOST_DEVICE gated_gradient<T> silu_gated_slopes(T gate, T up, T gradient) {
  const T s = sigmoid_element(gate), y = gate * s;
  return {gradient * up * (s + y * (T{1} - s)), gradient * y, y * up};
}

template <class T>
TROUPE_HOST_DEVICE T kept_element(T x, bool is_kept, T factor) {
  return is_kept ? x * factor : T{0};
}

}  // namespace troupe::kernels
