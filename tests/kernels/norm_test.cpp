#include "kernels/sums/norm.hpp"

#include "core/math.hpp"
#include "tests/kernels/samples.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(norm)

namespace {
uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }
}  // namespace

BOOST_AUTO_TEST_CASE(a_block_has_the_bits_of_the_scalar_twin_on_every_target) {
  for_each_simd_target([] {
    for (const auto type : float_dtypes) {
      for (const uint64_t count : edge_counts()) {
        if (count > core::partition_grain) continue;
        const auto values = awkward_bytes(type, count, count);
        BOOST_REQUIRE_EQUAL(bits(block_square_sum(values.data(), type, count)),
                            bits(block_square_sum_reference(values.data(), type, count)));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(the_sum_agrees_with_exact_arithmetic) {
  std::vector<float> values(1024, 3.0F);
  BOOST_CHECK_EQUAL(block_square_sum(reinterpret_cast<const std::byte*>(values.data()), core::dtype::f32, 1024),
                    9216.0);
  const auto many = awkward_floats(1024, 11);
  long double wanted = 0;
  for (const float x : many) wanted += static_cast<long double>(x) * static_cast<long double>(x);
  const double got = block_square_sum(reinterpret_cast<const std::byte*>(many.data()), core::dtype::f32, 1024);
  BOOST_CHECK_SMALL(got / static_cast<double>(wanted) - 1, 1e-14);
}

BOOST_AUTO_TEST_CASE(many_blocks_are_the_blocks_one_by_one) {
  for (const auto type : float_dtypes) {
    for (const uint64_t count : {1U, 1024U, 1025U, 10007U}) {
      BOOST_TEST_INFO_SCOPE("count " << count);
      const auto values = awkward_bytes(type, count, 3);
      std::vector<double> sums(core::div_up(count, core::partition_grain));
      block_square_sums(values.data(), type, count, sums);
      for (uint64_t b = 0; b < sums.size(); ++b) {
        const uint64_t first = b * core::partition_grain;
        const uint64_t n = std::min(core::partition_grain, count - first);
        BOOST_REQUIRE_EQUAL(bits(sums[b]),
                            bits(block_square_sum(values.data() + first * core::size_of(type), type, n)));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(trailing_zeros_and_signs_change_no_bit) {
  auto values = awkward_floats(1000, 5);
  auto padded = values;
  padded.resize(1024, -0.0F);
  for (auto& x : padded) x = -x;
  BOOST_CHECK_EQUAL(bits(block_square_sum(reinterpret_cast<const std::byte*>(values.data()), core::dtype::f32, 1000)),
                    bits(block_square_sum(reinterpret_cast<const std::byte*>(padded.data()), core::dtype::f32, 1024)));
}

BOOST_AUTO_TEST_CASE(squares_beyond_fp32_do_not_overflow) {
  const std::vector<float> values(3, 1e30F);
  const double sum = block_square_sum(reinterpret_cast<const std::byte*>(values.data()), core::dtype::f32, 3);
  BOOST_CHECK(std::isfinite(sum));
  BOOST_CHECK_GT(sum, 2.9e60);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
