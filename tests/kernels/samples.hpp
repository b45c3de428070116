// Owns arrays of awkward numbers, a loop over all SIMD targets and bitwise comparison; shared by the kernels' tests.
#pragma once

#include <hwy/highway.h>

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/base/cast.hpp"
#include "kernels/base/with_dtype.hpp"

namespace troupe::kernels::tests {

inline constexpr core::dtype float_dtypes[] = {core::dtype::f64, core::dtype::f32, core::dtype::bf16, core::dtype::f16};
inline constexpr core::dtype fp32_dtypes[] = {core::dtype::f32, core::dtype::bf16, core::dtype::f16};

/// Returns element counts around the multiples of vector widths and block sizes.
inline std::vector<uint64_t> edge_counts() {
  std::vector<uint64_t> counts;
  for (uint64_t n = 0; n <= 70; ++n) counts.push_back(n);
  for (const uint64_t n : {127U, 1023U, 1024U, 1025U, 5000U, 65543U}) counts.push_back(n);
  return counts;
}

/// Runs `f` once for every SIMD target that this processor supports, then selects the best one again.
template <class F>
void for_each_simd_target(F&& f) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    BOOST_TEST_CONTEXT("target " << hwy::TargetName(target)) { f(); }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

/// Returns finite random numbers of many magnitudes; some are zeros of both signs or subnormals of fp32, bf16 or fp16.
inline std::vector<float> awkward_floats(uint64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-30, 12);
  std::vector<float> out(count);
  for (auto& x : out) {
    switch (random() % 16) {
      case 0:
        x = 0.0F;
        break;
      case 1:
        x = -0.0F;
        break;
      case 2:
        x = std::ldexp(normal(random), -135);
        break;  // subnormal in fp32 and bf16
      case 3:
        x = std::ldexp(normal(random), -18);
        break;  // subnormal in fp16
      default:
        x = std::ldexp(normal(random), exponent(random));
        break;
    }
  }
  return out;
}

/// Returns `values` stored as `type`; the first element begins `offset` bytes into the array.
inline std::vector<std::byte> stored_as(core::dtype type, const std::vector<float>& values, uint64_t offset = 0) {
  std::vector<std::byte> out(offset + values.size() * core::size_of(type));
  cast_reference(reinterpret_cast<const std::byte*>(values.data()), core::dtype::f32, out.data() + offset, type,
                 values.size());
  return out;
}

inline std::vector<std::byte> awkward_bytes(core::dtype type, uint64_t count, uint64_t seed) {
  return stored_as(type, awkward_floats(count, seed));
}

/// Returns the index of the first element whose bits differ, or the arrays' length if all are equal.
template <class T>
uint64_t first_difference(const std::vector<T>& a, const std::vector<T>& b) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  for (uint64_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) return i;
  }
  return a.size();
}

#define TROUPE_CHECK_SAME_BITS(a, b) BOOST_CHECK_EQUAL(first_difference(a, b), (a).size())

}  // namespace troupe::kernels::tests
