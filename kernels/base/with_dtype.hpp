// Converts a dtype known at run time to a type known at compile time, once, outside every loop.
#pragma once

#include <cassert>
#include <type_traits>

#include "core/dtype.hpp"
#include "kernels/base/half.hpp"

namespace troupe::kernels {

/// Calls `f(std::type_identity<T>{})` with the stored type of `t`, which is one of f64, f32, bf16, f16.
template <class F>
decltype(auto) with_float_dtype(core::dtype t, F&& f) {
  assert(is_float(t));
  switch (t) {
    case core::dtype::f64:
      return f(std::type_identity<double>{});
    case core::dtype::bf16:
      return f(std::type_identity<bf16>{});
    case core::dtype::f16:
      return f(std::type_identity<f16>{});
    default:
      return f(std::type_identity<float>{});
  }
}

/// Calls `f(std::type_identity<T>{})` with the stored type of `t`, which must be computed in fp32: f32, bf16 or f16.
template <class F>
decltype(auto) with_fp32_dtype(core::dtype t, F&& f) {
  assert(is_float(t) && t != core::dtype::f64);
  switch (t) {
    case core::dtype::bf16:
      return f(std::type_identity<bf16>{});
    case core::dtype::f16:
      return f(std::type_identity<f16>{});
    default:
      return f(std::type_identity<float>{});
  }
}

}  // namespace troupe::kernels
