// Compares SIMD column sums and rotary embeddings with scalar references bit by bit on every SIMD target, and with the
// formulas.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "kernels/layers/rotary.hpp"
#include "kernels/sums/column_sums.hpp"
#include "samples.hpp"

namespace troupe::kernels::tests {

BOOST_AUTO_TEST_SUITE(rows)

BOOST_AUTO_TEST_CASE(column_sums_have_the_bits_of_the_scalar_twin) {
  for (const core::dtype type : fp32_dtypes)
    for (const core::dtype out_type : fp32_dtypes)
      for (const uint64_t width : {1U, 15U, 16U, 100U, 131U, 300U})
        for (const uint64_t rows : {0U, 1U, 63U, 64U, 65U, 200U}) {
          const uint64_t stride = width + 5;
          const auto x = awkward_bytes(type, rows * stride, width);
          std::vector<std::byte> wanted(width * core::size_of(out_type)), got(wanted.size());
          column_sums_reference(x.data(), type, rows, width, stride, wanted.data(), out_type);
          for_each_simd_target([&] {
            column_sums(x.data(), type, rows, width, stride, got.data(), out_type);
            TROUPE_CHECK_SAME_BITS(got, wanted);
          });
        }
}

BOOST_AUTO_TEST_CASE(column_sums_are_sums) {
  const uint64_t rows = 150, width = 33;
  std::vector<double> x(rows * width), sums(width);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 1000) - 300;
  column_sums(reinterpret_cast<const std::byte*>(x.data()), core::dtype::f64, rows, width, width,
              reinterpret_cast<std::byte*>(sums.data()), core::dtype::f64);
  for (uint64_t c = 0; c < width; ++c) {
    double wanted = 0;
    for (uint64_t r = 0; r < rows; ++r) wanted += x[r * width + c];
    BOOST_TEST(sums[c] == wanted);  // the summands are integers, so the sum is exact in every order
  }
}

BOOST_AUTO_TEST_CASE(turned_heads_have_the_bits_of_the_scalar_twin) {
  for (const core::dtype type : fp32_dtypes)
    for (const uint64_t width : {2U, 16U, 30U, 64U, 128U}) {
      const uint64_t heads = 3;
      const auto x = awkward_bytes(type, heads * width, 1);
      const auto cosines = awkward_floats(width / 2, 2), sines = awkward_floats(width / 2, 3);
      for (const bool back : {false, true}) {
        std::vector<std::byte> wanted(x.size()), got(x.size());
        turn_heads_reference(x.data(), wanted.data(), type, heads, width, cosines.data(), sines.data(), back);
        for_each_simd_target([&] {
          turn_heads(x.data(), got.data(), type, heads, width, cosines.data(), sines.data(), back);
          TROUPE_CHECK_SAME_BITS(got, wanted);
        });
      }
    }
}

BOOST_AUTO_TEST_CASE(a_turn_and_its_opposite_restore_the_values) {
  const uint64_t heads = 2, width = 8;
  std::vector<double> x(heads * width), cosines(width / 2), sines(width / 2);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i) + 1;
  for (size_t i = 0; i < width / 2; ++i) {
    cosines[i] = std::cos(0.3 * static_cast<double>(i + 1));
    sines[i] = std::sin(0.3 * static_cast<double>(i + 1));
  }
  auto turned = x;
  auto* bytes = reinterpret_cast<std::byte*>(turned.data());
  turn_heads_reference(bytes, bytes, core::dtype::f64, heads, width, cosines.data(), sines.data(), false);
  // The rotary embedding turns the first pair, (1, 5), by an angle of 0.3.
  BOOST_TEST(std::abs(turned[0] - (std::cos(0.3) - 5 * std::sin(0.3))) < 1e-14);
  BOOST_TEST(std::abs(turned[4] - (5 * std::cos(0.3) + std::sin(0.3))) < 1e-14);
  turn_heads_reference(bytes, bytes, core::dtype::f64, heads, width, cosines.data(), sines.data(), true);
  for (size_t i = 0; i < x.size(); ++i) BOOST_TEST(std::abs(turned[i] - x[i]) < 1e-13);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::kernels::tests
