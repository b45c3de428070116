// The update of one element by SGD, called by the scalar CPU code, the fp64 code and the CUDA kernels; the SIMD loops
// use the same operations in the same order, so their bits are equal.
#pragma once

#include "kernels/base/device.hpp"
#include "kernels/optimizer/sgd.hpp"

namespace troupe::kernels {

/// Factors of SGD's formulas that are constant over one step, each computed in fp64 from the options and the step, and
/// rounded once to T.
template <class T>
struct sgd_factors {
  T momentum, one_minus_dampening, l2, lr, gradient_scale;
  bool nesterov, first;  ///< `first`: true in the first step of the run, in which the momentum is set to the gradient
};

template <class T>
sgd_factors<T> factors_of(const sgd_options& o, const optimizer_step& s) {
  return {.momentum = static_cast<T>(o.momentum),
          .one_minus_dampening = static_cast<T>(1 - o.dampening),
          .l2 = static_cast<T>(o.weight_decay),
          .lr = static_cast<T>(s.lr),
          .gradient_scale = static_cast<T>(s.gradient_scale),
          .nesterov = o.nesterov,
          .first = s.step == 1};
}

/// Updates the weight `p` of one element, for SGD without momentum.
template <class T>
TROUPE_HOST_DEVICE inline void sgd_element(const sgd_factors<T>& f, T& p, T gradient) {
  T g = gradient * f.gradient_scale;
  if (f.l2 != 0) g = g + f.l2 * p;
  p = p - f.lr * g;
}

template <class T>
TROUPE_HOST_DEVICE inline void sgd_element(const sgd_factors<T>& f, T& p, T& m, T gradient) {
  T g = gradient * f.gradient_scale;
  if (f.l2 != 0) g = g + f.l2 * p;
  m = f.first ? g : f.momentum * m + f.one_minus_dampening * g;
  const T d = f.nesterov ? g + f.momentum * m : m;
  p = p - f.lr * d;
}

}  // namespace troupe::kernels
