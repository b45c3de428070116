// The update of one element by AdamW, called by the scalar CPU code, the fp64 code and the CUDA kernels; the SIMD loops
// use the same operations in the same order, so their bits are equal.
#pragma once

#include <cmath>

#include "kernels/base/device.hpp"
#include "kernels/optimizer/adamw.hpp"

namespace troupe::kernels {

/// Factors of AdamW's formulas that are constant over one step, each computed in fp64 from the options and the step,
/// and rounded once to T.
template <class T>
struct adamw_factors {
  T beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon;
  T inverse_sqrt_correction2;  ///< 1 / sqrt(1 - beta2^step)
  T step_size;                 ///< factor of the update on the weight: -lr / (1 - beta1^step)
  T l2;                        ///< factor of the weight in the gradient: weight_decay in L2 mode, otherwise 0
  T decay;                     ///< fraction by which the weight decays: lr * weight_decay in AdamW mode, otherwise 0
  T gradient_scale;
};

template <class T>
adamw_factors<T> factors_of(const adamw_options& o, const optimizer_step& s) {
  const auto t = static_cast<double>(s.step);
  const double correction1 = o.bias_correction ? 1 - std::pow(o.beta1, t) : 1;
  const double correction2 = o.bias_correction ? 1 - std::pow(o.beta2, t) : 1;
  return {.beta1 = static_cast<T>(o.beta1),
          .one_minus_beta1 = static_cast<T>(1 - o.beta1),
          .beta2 = static_cast<T>(o.beta2),
          .one_minus_beta2 = static_cast<T>(1 - o.beta2),
          .epsilon = static_cast<T>(o.epsilon),
          .inverse_sqrt_correction2 = static_cast<T>(1 / std::sqrt(correction2)),
          .step_size = static_cast<T>(-s.lr / correction1),
          .l2 = static_cast<T>(o.adamw_mode ? 0 : o.weight_decay),
          .decay = static_cast<T>(o.adamw_mode ? s.lr * o.weight_decay : 0),
          .gradient_scale = static_cast<T>(s.gradient_scale)};
}

template <class T>
TROUPE_HOST_DEVICE inline void adamw_element(const adamw_factors<T>& f, T& p, T& m, T& v, T gradient) {
  T g = gradient * f.gradient_scale;
  if (f.l2 != 0) g = g + f.l2 * p;
  m = f.beta1 * m + f.one_minus_beta1 * g;
  v = f.beta2 * v + f.one_minus_beta2 * g * g;
  const T d = std::sqrt(v) * f.inverse_sqrt_correction2 + f.epsilon;
  if (f.decay != 0) p = p - f.decay * p;
  p = p + f.step_size * (m / d);
}

}  // namespace troupe::kernels
