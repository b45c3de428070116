// Owns element counts around the edges of blocks and grids, numbers of every class, and the comparison of arrays;
// shared by the tests of the CUDA kernels.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/cuda/grid.cuh"
#include "tests/kernels/samples.hpp"

namespace troupe::kernels::cuda::tests {

using kernels::tests::awkward_bytes;
using kernels::tests::awkward_floats;
using kernels::tests::first_difference;
using kernels::tests::float_dtypes;
using kernels::tests::fp32_dtypes;
using kernels::tests::stored_as;

/// True if the CUDA kernels run on the host. The host runs a thousandth of a device's threads, so tests use fewer
/// numbers there.
#ifdef TROUPE_CUDA_ON_HOST
inline constexpr bool is_on_host = true;
#else
inline constexpr bool is_on_host = false;
#endif

/// Returns `on_device` on a device and the smaller `on_host` on the host, for tests that only need a large count.
constexpr uint64_t many(uint64_t on_device, uint64_t on_host) { return is_on_host ? on_host : on_device; }

/// A number of elements above the number that all threads of a grid process in one pass.
inline constexpr uint64_t more_than_a_grid = max_blocks * threads_per_block * (is_on_host ? 8 : 4) + 77;

/// Element counts around the sizes of a thread's load, a warp, a summation block and a thread block; the last exceeds
/// one pass of a grid.
inline constexpr uint64_t ragged_counts[] = {0,
                                             1,
                                             2,
                                             3,
                                             5,
                                             7,
                                             8,
                                             15,
                                             16,
                                             31,
                                             33,
                                             63,
                                             64,
                                             65,
                                             127,
                                             255,
                                             257,
                                             1023,
                                             1024,
                                             1025,
                                             2047,
                                             2049,
                                             3072,
                                             5000,
                                             8191,
                                             9999,
                                             16384 + 1,
                                             65543,
                                             more_than_a_grid};
/// A few element counts, for tests that vary many other parameters.
inline constexpr uint64_t some_counts[] = {0, 1, 31, 33, 1023, 1025, 4099};

/// Returns awkward_floats() in which some elements are infinities, NaN of both signs, and the largest and smallest
/// numbers of every type.
inline std::vector<float> hard_floats(uint64_t count, uint64_t seed) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float hard[] = {infinity, -infinity,  nan,       -nan,       0x1.FFFFFEp127F, -0x1.FFFFFEp127F, 0x1p-149F,
                            1e30F,    -0x1p-149F, 0x1p-126F, -0x1p-133F, 65504.0F,        65520.0F,         0x1p-24F};
  auto out = awkward_floats(count, seed);
  std::mt19937_64 random(seed + 1000);
  for (auto& x : out)
    if (random() % 8 == 0) x = hard[random() % std::size(hard)];
  return out;
}
inline std::vector<std::byte> hard_bytes(core::dtype type, uint64_t count, uint64_t seed) {
  return stored_as(type, hard_floats(count, seed));
}

/// Returns true if two stored numbers have the same bits or are both NaN, because the bits of a computed NaN depend on
/// the processor.
template <class T>
bool is_same(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (std::isnan(widen(a)) && std::isnan(widen(b)));
}

/// Returns the index of the first element for which is_same() is false, or `count` if all elements are the same.
template <class T>
uint64_t first_other(const T* got, const T* wanted, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    if (!is_same(got[i], wanted[i])) return i;
  return count;
}
template <class T>
uint64_t first_other(const std::vector<T>& got, const std::vector<T>& wanted) {
  BOOST_REQUIRE_EQUAL(got.size(), wanted.size());
  return first_other(got.data(), wanted.data(), got.size());
}

/// Requires that is_same() is true for all pairs of elements of `type`.
inline void require_same(core::dtype type, const std::vector<std::byte>& got, const std::vector<std::byte>& wanted) {
  BOOST_REQUIRE_EQUAL(got.size(), wanted.size());
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    const uint64_t count = got.size() / sizeof(T);
    BOOST_REQUIRE_EQUAL(
        first_other(reinterpret_cast<const T*>(got.data()), reinterpret_cast<const T*>(wanted.data()), count), count);
  });
}
template <class T>
void require_same(const std::vector<T>& got, const std::vector<T>& wanted) {
  BOOST_REQUIRE_EQUAL(first_other(got, wanted), wanted.size());
}
/// Requires that all pairs of elements have the same bits, NaN included.
template <class T>
void require_same_bits(const std::vector<T>& got, const std::vector<T>& wanted) {
  BOOST_REQUIRE_EQUAL(first_difference(got, wanted), wanted.size());
}

}  // namespace troupe::kernels::cuda::tests
