// Owns conversions of inputs to fp64 and the error of rounding to a stored type; shared by the tests of CUDA kernels
// whose summation order differs from the CPU's.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "tests/kernels/samples.hpp"

namespace troupe::kernels::cuda::tests {

/// Converts stored elements of `type` to fp64, which is exact.
inline std::vector<double> wide(core::dtype type, const std::vector<std::byte>& stored) {
  std::vector<double> out(stored.size() / core::size_of(type));
  cast_reference(stored.data(), type, reinterpret_cast<std::byte*>(out.data()), core::dtype::f64, out.size());
  return out;
}
inline std::byte* bytes_of(std::vector<double>& values) { return reinterpret_cast<std::byte*>(values.data()); }
inline const std::byte* bytes_of(const std::vector<double>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

/// Returns the largest error of rounding a number near `x` to `type`, plus 1 % because the number may be just above the
/// next power of two.
inline double half_unit(core::dtype type, double x) {
  const double share = type == core::dtype::f32 ? 0x1p-24 : type == core::dtype::bf16 ? 0x1p-8 : 0x1p-11;
  const double least = type == core::dtype::f16 ? 0x1p-25 : 0x1p-134;
  return std::max(1.01 * share * std::abs(x), least);
}

}  // namespace troupe::kernels::cuda::tests
