// The sum of one element over ranks, called by the scalar CPU code and the CUDA kernel.
#pragma once

#include "kernels/base/with_dtype.hpp"
#include "kernels/sums/reduce.hpp"

namespace troupe::kernels {

/// True if a reduction is computed in fp64 rather than fp32.
constexpr bool uses_fp64(const reduce_options& o) {
  return o.input == core::dtype::f64 || o.communication == core::dtype::f64 || o.output == core::dtype::f64;
}

/// Returns `x` rounded to the type `to`, still as a number of type `Work`.
template <class Work>
TROUPE_HOST_DEVICE constexpr Work rounded(Work x, core::dtype to) {
  switch (to) {
    case core::dtype::bf16:
      return static_cast<Work>(widen(narrow<bf16>(x)));
    case core::dtype::f16:
      return static_cast<Work>(widen(narrow<f16>(x)));
    case core::dtype::f32:
      return static_cast<Work>(widen(narrow<float>(x)));
    default:
      return x;
  }
}

/// Returns the contribution of one rank's element to the sum, scaled and rounded as the options require.
template <class Work, class In>
TROUPE_HOST_DEVICE constexpr Work contribution_of(In stored, const reduce_options& o) {
  auto x = static_cast<Work>(widen(stored));
  if (o.input_scale != 1.0F) x *= static_cast<Work>(o.input_scale);
  return rounded(x, o.communication);
}

/// Returns element `i` of the sum over `ranks` inputs, rounded to the communication dtype. `inputs` is an array of
/// pointers.
template <class Work, class In, class Pointers>
TROUPE_HOST_DEVICE constexpr Work sum_element(const Pointers& inputs, uint64_t ranks, uint64_t i,
                                              const reduce_options& o) {
  Work sum = 0;
  for (uint64_t r = 0; r < ranks; ++r) {
    const auto contribution = contribution_of<Work>(reinterpret_cast<const In*>(inputs[r])[i], o);
    sum = r == 0 ? contribution : sum + contribution;
  }
  return rounded(sum, o.communication);
}

/// Stores `sum` at `output`, or adds it to the value there if `o.accumulate` is set.
template <class Work, class Out>
TROUPE_HOST_DEVICE constexpr void store_sum(Work sum, Out& output, const reduce_options& o) {
  output = narrow<Out>(o.accumulate ? static_cast<Work>(widen(output)) + sum : sum);
}

}  // namespace troupe::kernels
