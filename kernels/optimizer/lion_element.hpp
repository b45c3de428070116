// The update of one element by Lion, called by the scalar CPU code, the fp64 code and the CUDA kernels; the SIMD loops
// use the same operations in the same order, so their bits are equal.
#pragma once

#include "kernels/base/device.hpp"
#include "kernels/optimizer/lion.hpp"

namespace troupe::kernels {

/// Factors of Lion's formulas that are constant over one step, each computed in fp64 from the options and the step, and
/// rounded once to T.
template <class T>
struct lion_factors {
  T beta1, one_minus_beta1, beta2, one_minus_beta2;
  T keep;  ///< factor on the weight: 1 - lr * weight_decay
  T lr, gradient_scale;
};

template <class T>
lion_factors<T> factors_of(const lion_options& o, const optimizer_step& s) {
  return {.beta1 = static_cast<T>(o.beta1),
          .one_minus_beta1 = static_cast<T>(1 - o.beta1),
          .beta2 = static_cast<T>(o.beta2),
          .one_minus_beta2 = static_cast<T>(1 - o.beta2),
          .keep = static_cast<T>(1 - s.lr * o.weight_decay),
          .lr = static_cast<T>(s.lr),
          .gradient_scale = static_cast<T>(s.gradient_scale)};
}

template <class T>
TROUPE_HOST_DEVICE inline void lion_element(const lion_factors<T>& f, T& p, T& m, T gradient) {
  const T g = gradient * f.gradient_scale;
  const T c = f.beta1 * m + f.one_minus_beta1 * g;
  const T signed_lr = c > 0 ? f.lr : (c < 0 ? -f.lr : T{0});
  p = p * f.keep - signed_lr;
  m = f.beta2 * m + f.one_minus_beta2 * g;
}

}  // namespace troupe::kernels
