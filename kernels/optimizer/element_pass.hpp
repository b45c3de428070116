// Loops of the optimizers' scalar and fp64 code over a piece: one element at a time, the copy of the weights
// afterwards.
#pragma once

#include <cassert>
#include <cstdint>

#include "kernels/base/with_dtype.hpp"
#include "kernels/optimizer/optimizer_piece.hpp"

namespace troupe::kernels {

/// Sets `piece.copy` to the master weights, rounded to `copy_dtype`; does nothing if there is no copy.
inline void store_copy(const optimizer_piece<float>& piece) {
  if (piece.copy == nullptr) return;
  with_fp32_dtype(piece.copy_dtype, [&]<class Copy>(std::type_identity<Copy>) {
    for (uint64_t i = 0; i < piece.count; ++i) reinterpret_cast<Copy*>(piece.copy)[i] = narrow<Copy>(piece.master[i]);
  });
}
inline void store_copy([[maybe_unused]] const optimizer_piece<double>& piece) { assert(piece.copy == nullptr); }

/// Calls `f(index, gradient)` for every element of the piece. The gradient is converted to the type of the optimizer's
/// states, in which `f` computes.
template <class F>
void for_each_gradient(const optimizer_piece<float>& piece, F&& f) {
  with_fp32_dtype(piece.gradient_dtype, [&]<class Gradient>(std::type_identity<Gradient>) {
    const auto* g = reinterpret_cast<const Gradient*>(piece.gradient);
    for (uint64_t i = 0; i < piece.count; ++i) f(i, widen(g[i]));
  });
}
template <class F>
void for_each_gradient(const optimizer_piece<double>& piece, F&& f) {
  assert(piece.gradient_dtype == core::dtype::f64);
  const auto* g = reinterpret_cast<const double*>(piece.gradient);
  for (uint64_t i = 0; i < piece.count; ++i) f(i, g[i]);
}

}  // namespace troupe::kernels
