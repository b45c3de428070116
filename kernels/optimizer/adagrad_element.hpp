// The update of one element by Adagrad, called by the scalar CPU code, the fp64 code and the CUDA kernels; the SIMD
// loops use the same operations in the same order, so their bits are equal.
#pragma once

#include <cmath>

#include "kernels/base/device.hpp"
#include "kernels/optimizer/adagrad.hpp"

namespace troupe::kernels {

/// Factors of Adagrad's formulas that are constant over one step, each computed in fp64 from the options and the step,
/// and rounded once to T.
template <class T>
struct adagrad_factors {
  T epsilon, l2;
  T lr;  ///< learning rate of this step: lr / (1 + (step - 1) * lr_decay)
  T gradient_scale;
};

template <class T>
adagrad_factors<T> factors_of(const adagrad_options& o, const optimizer_step& s) {
  return {.epsilon = static_cast<T>(o.epsilon),
          .l2 = static_cast<T>(o.weight_decay),
          .lr = static_cast<T>(s.lr / (1 + static_cast<double>(s.step - 1) * o.lr_decay)),
          .gradient_scale = static_cast<T>(s.gradient_scale)};
}

template <class T>
TROUPE_HOST_DEVICE inline void adagrad_element(const adagrad_factors<T>& f, T& p, T& sum, T gradient) {
  T g = gradient * f.gradient_scale;
  if (f.l2 != 0) g = g + f.l2 * p;
  sum = sum + g * g;
  p = p - f.lr * (g / (std::sqrt(sum) + f.epsilon));
}

}  // namespace troupe::kernels
