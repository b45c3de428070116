// The update of one element by LAMB, called by the scalar CPU code, the fp64 code and the CUDA kernels; the SIMD loops
// use the same operations in the same order, so their bits are equal.
#pragma once

#include <cmath>

#include "kernels/base/device.hpp"
#include "kernels/optimizer/lamb.hpp"

namespace troupe::kernels {

/// Factors of LAMB's formulas that are constant over one step, each computed in fp64 from the options and the step, and
/// rounded once to T.
template <class T>
struct lamb_factors {
  T beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon, weight_decay;
  T step_size;  ///< factor of the direction u in the update: lr * sqrt(1 - beta2^step) / (1 - beta1^step) * trust ratio
  T gradient_scale;
};

template <class T>
lamb_factors<T> factors_of(const lamb_options& o, const optimizer_step& s, double trust_ratio = 1) {
  const auto t = static_cast<double>(s.step);
  const double correction = o.bias_correction ? std::sqrt(1 - std::pow(o.beta2, t)) / (1 - std::pow(o.beta1, t)) : 1;
  return {.beta1 = static_cast<T>(o.beta1),
          .one_minus_beta1 = static_cast<T>(1 - o.beta1),
          .beta2 = static_cast<T>(o.beta2),
          .one_minus_beta2 = static_cast<T>(1 - o.beta2),
          .epsilon = static_cast<T>(o.epsilon),
          .weight_decay = static_cast<T>(o.weight_decay),
          .step_size = static_cast<T>(s.lr * correction * trust_ratio),
          .gradient_scale = static_cast<T>(s.gradient_scale)};
}

template <class T>
TROUPE_HOST_DEVICE inline void lamb_moments(const lamb_factors<T>& f, T& m, T& v, T gradient) {
  const T g = gradient * f.gradient_scale;
  m = f.beta1 * m + f.one_minus_beta1 * g;
  v = f.beta2 * v + f.one_minus_beta2 * g * g;
}

template <class T>
TROUPE_HOST_DEVICE inline T lamb_direction(const lamb_factors<T>& f, T p, T m, T v) {
  const T u = m / (std::sqrt(v) + f.epsilon);
  return f.weight_decay != 0 ? u + f.weight_decay * p : u;
}

template <class T>
TROUPE_HOST_DEVICE inline T lamb_weight(const lamb_factors<T>& f, T p, T m, T v) {
  return p - f.step_size * lamb_direction(f, p, m, v);
}

}  // namespace troupe::kernels
