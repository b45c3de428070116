// Compares GELU and dropout scaling with plain arithmetic in fp64.
#include "kernels/layers/elementwise.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "kernels/base/cast.hpp"

BOOST_AUTO_TEST_SUITE(elementwise)

using namespace troupe;

namespace {

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double c = std::sqrt(2 / std::numbers::pi), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

std::vector<float> samples() {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(0, 3);
  std::vector<float> x{0.0F, -0.0F, 50.0F, -50.0F, 1e4F, -1e4F, 1e-20F};
  // 1003 is not a multiple of any vector width.
  while (x.size() < 1003) x.push_back(static_cast<float>(normal(random)));
  return x;
}

const std::byte* bytes(const std::vector<float>& v) { return reinterpret_cast<const std::byte*>(v.data()); }
std::byte* bytes(std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); }

}  // namespace

BOOST_AUTO_TEST_CASE(gelu_and_its_slope_are_those_of_tanh) {
  const auto x = samples();
  std::vector<float> y(x.size()), dx(x.size(), 2.0F);
  kernels::gelu_tanh(bytes(x), bytes(y), core::dtype::f32, x.size());
  kernels::gelu_tanh_backward(bytes(x), bytes(dx), bytes(dx), core::dtype::f32, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    BOOST_TEST(std::abs(y[i] - gelu(x[i])) <= 1e-6 * std::abs(x[i]), "gelu of " << x[i] << " gives " << y[i]);
    BOOST_TEST(std::abs(dx[i] - 2 * gelu_slope(x[i])) <= 4e-6, "slope at " << x[i] << " gives " << dx[i] / 2);
  }
}

BOOST_AUTO_TEST_CASE(an_element_has_the_same_bits_at_any_place) {
  const auto x = samples();
  std::vector<float> together(x.size()), alone(x.size());
  kernels::gelu_tanh(bytes(x), bytes(together), core::dtype::f32, x.size());
  for (size_t i = 0; i < x.size(); ++i) kernels::gelu_tanh(bytes(x) + 4 * i, bytes(alone) + 4 * i, core::dtype::f32, 1);
  BOOST_TEST(together == alone, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(narrow_types_round_the_fp32_result_once) {
  const auto x = samples();
  for (const core::dtype type : {core::dtype::bf16, core::dtype::f16}) {
    BOOST_TEST_INFO_SCOPE(core::name_of(type));
    std::vector<uint16_t> narrow(x.size()), got(x.size()), wanted(x.size());
    kernels::cast(bytes(x), core::dtype::f32, reinterpret_cast<std::byte*>(narrow.data()), type, x.size());
    std::vector<float> wide(x.size());
    kernels::cast(reinterpret_cast<std::byte*>(narrow.data()), type, bytes(wide), core::dtype::f32, x.size());
    kernels::gelu_tanh(bytes(wide), bytes(wide), core::dtype::f32, x.size());
    kernels::cast(bytes(wide), core::dtype::f32, reinterpret_cast<std::byte*>(wanted.data()), type, x.size());
    kernels::gelu_tanh(reinterpret_cast<std::byte*>(narrow.data()), reinterpret_cast<std::byte*>(got.data()), type,
                       x.size());
    BOOST_TEST(got == wanted, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(kept_elements_are_scaled_and_dropped_ones_are_zero) {
  std::vector<float> x(101, 3.0F);
  std::vector<double> wide(101, 3.0);
  std::vector<uint8_t> keep(101);
  for (size_t i = 0; i < keep.size(); ++i) keep[i] = i % 3 == 0 ? 0 : 1;
  x[0] = std::numeric_limits<float>::infinity();  // is dropped, and must not become NaN by multiplying inf with 0
  kernels::scale_kept(bytes(x), core::dtype::f32, keep.data(), 1.25, x.size());
  kernels::scale_kept(reinterpret_cast<std::byte*>(wide.data()), core::dtype::f64, keep.data(), 1.25, wide.size());
  for (size_t i = 0; i < x.size(); ++i) {
    BOOST_TEST(x[i] == (keep[i] != 0 ? 3.75F : 0.0F));
    BOOST_TEST(wide[i] == (keep[i] != 0 ? 3.75 : 0.0));
  }
}

BOOST_AUTO_TEST_SUITE_END()
