// Compares the SIMD activation functions with their scalar reference implementations, bit by bit, on every SIMD target.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "kernels/layers/elementwise.hpp"
#include "samples.hpp"

namespace troupe::kernels::tests {

BOOST_AUTO_TEST_SUITE(activations)

namespace {

using bytes = std::vector<std::byte>;

/// Returns inputs of every magnitude; the last element is infinite.
bytes inputs(core::dtype type, uint64_t count, uint64_t seed) {
  auto values = awkward_floats(count, seed);
  if (count > 2) values[count - 1] = std::numeric_limits<float>::infinity();
  if (count > 2) values[count - 2] = 1e30F;
  return stored_as(type, values);
}

}  // namespace

BOOST_AUTO_TEST_CASE(vectors_give_the_bits_of_the_scalar_twins) {
  for (const core::dtype type : fp32_dtypes)
    for (const uint64_t n : edge_counts()) {
      const bytes x = inputs(type, n, 1), up = awkward_bytes(type, n, 2), dy = awkward_bytes(type, n, 3);
      bytes wanted(4 * x.size()), got(4 * x.size());
      const auto part = [&](bytes& b, size_t which) { return b.data() + which * x.size(); };
      gelu_tanh_reference(x.data(), part(wanted, 0), type, n);
      gelu_tanh_backward_reference(x.data(), dy.data(), part(wanted, 1), type, n);
      silu_gated_reference(x.data(), up.data(), part(wanted, 2), type, n);
      bytes dup(x.size()), dup_wanted(x.size());
      silu_gated_backward_reference(x.data(), up.data(), dy.data(), part(wanted, 3), dup_wanted.data(), type, n);
      for_each_simd_target([&] {
        gelu_tanh(x.data(), part(got, 0), type, n);
        gelu_tanh_backward(x.data(), dy.data(), part(got, 1), type, n);
        silu_gated(x.data(), up.data(), part(got, 2), type, n);
        silu_gated_backward(x.data(), up.data(), dy.data(), part(got, 3), dup.data(), type, n);
        TROUPE_CHECK_SAME_BITS(got, wanted);
        TROUPE_CHECK_SAME_BITS(dup, dup_wanted);
        // Given an extra output, backward also stores forward's values, and the gradients must not change.
        bytes gelu_again(x.size()), gated_again(x.size());
        gelu_tanh_backward(x.data(), dy.data(), part(got, 1), type, n, gelu_again.data());
        silu_gated_backward(x.data(), up.data(), dy.data(), part(got, 3), dup.data(), type, n, gated_again.data());
        TROUPE_CHECK_SAME_BITS(got, wanted);
        TROUPE_CHECK_SAME_BITS(dup, dup_wanted);
        TROUPE_CHECK_SAME_BITS(gelu_again, bytes(wanted.begin(), wanted.begin() + long(x.size())));
        TROUPE_CHECK_SAME_BITS(gated_again,
                               bytes(wanted.begin() + 2 * long(x.size()), wanted.begin() + 3 * long(x.size())));
      });
    }
}

BOOST_AUTO_TEST_CASE(a_gated_silu_and_its_gradients_are_those_of_fp64) {
  const uint64_t n = 1000;
  std::vector<double> gate(n), up(n), dy(n), y(n), dgate(n), dup(n);
  std::vector<float> narrow_gate(n), narrow_up(n), narrow_dy(n), ny(n), ndgate(n), ndup(n);
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal(0, 4);
  for (uint64_t i = 0; i < n; ++i) {
    gate[i] = narrow_gate[i] = normal(random);
    up[i] = narrow_up[i] = normal(random);
    dy[i] = narrow_dy[i] = normal(random);
  }
  const auto of = [](auto& v) { return reinterpret_cast<std::byte*>(v.data()); };
  silu_gated_reference(of(gate), of(up), of(y), core::dtype::f64, n);
  silu_gated_backward_reference(of(gate), of(up), of(dy), of(dgate), of(dup), core::dtype::f64, n);
  silu_gated(of(narrow_gate), of(narrow_up), of(ny), core::dtype::f32, n);
  silu_gated_backward(of(narrow_gate), of(narrow_up), of(narrow_dy), of(ndgate), of(ndup), core::dtype::f32, n);
  for (uint64_t i = 0; i < n; ++i) {
    const double s = 1 / (1 + std::exp(-gate[i])), silu = gate[i] * s, slope = s * (1 + gate[i] * (1 - s));
    BOOST_TEST(std::abs(y[i] - silu * up[i]) <= 1e-13);
    BOOST_TEST(std::abs(dgate[i] - dy[i] * up[i] * slope) <= 1e-13);
    BOOST_TEST(std::abs(dup[i] - dy[i] * silu) <= 1e-13);
    BOOST_TEST(std::abs(ny[i] - y[i]) <= 1e-6 * (1 + std::abs(gate[i] * up[i])));
    BOOST_TEST(std::abs(ndgate[i] - dgate[i]) <= 2e-6 * (1 + std::abs(dy[i] * up[i])));
    BOOST_TEST(std::abs(ndup[i] - dup[i]) <= 1e-6 * (1 + std::abs(dy[i] * gate[i])));
  }
}

BOOST_AUTO_TEST_CASE(nan_stays_nan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x(33, nan), one(33, 1.0F), y(33), dx(33);
  const auto of = [](auto& v) { return reinterpret_cast<std::byte*>(v.data()); };
  gelu_tanh(of(x), of(y), core::dtype::f32, x.size());
  gelu_tanh_backward(of(x), of(one), of(dx), core::dtype::f32, x.size());
  for (size_t i = 0; i < x.size(); ++i) BOOST_TEST((std::isnan(y[i]) && std::isnan(dx[i])));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::kernels::tests
