// The update of one element by Muon, called by the scalar CPU code, the fp64 code and the CUDA kernels; the SIMD loops
// use the same operations in the same order, so their bits are equal.
#pragma once

#include "kernels/base/device.hpp"
#include "kernels/optimizer/muon.hpp"

namespace troupe::kernels {

/// Factors of Muon's formulas that are constant over one step, each computed in fp64 from the options and the step, and
/// rounded once to T.
template <class T>
struct muon_factors {
  T momentum, one_minus_momentum;
  T keep;  ///< factor on the weight: 1 - lr * weight_decay
  T lr, gradient_scale;
  bool nesterov;
};

template <class T>
muon_factors<T> factors_of(const muon_options& o, const optimizer_step& s) {
  return {.momentum = static_cast<T>(o.momentum),
          .one_minus_momentum = static_cast<T>(1 - o.momentum),
          .keep = static_cast<T>(1 - s.lr * o.weight_decay),
          .lr = static_cast<T>(s.lr),
          .gradient_scale = static_cast<T>(s.gradient_scale),
          .nesterov = o.nesterov};
}

/// Updates the momentum `m` of one element, and returns the element's update direction.
template <class T>
TROUPE_HOST_DEVICE inline T muon_direction(const muon_factors<T>& f, T& m, T gradient) {
  const T g = f.one_minus_momentum * (gradient * f.gradient_scale);
  m = f.momentum * m + g;
  return f.nesterov ? g + f.momentum * m : m;
}

template <class T>
TROUPE_HOST_DEVICE inline T muon_weight(const muon_factors<T>& f, T p, T orthogonal) {
  return p * f.keep - f.lr * orthogonal;
}

}  // namespace troupe::kernels
