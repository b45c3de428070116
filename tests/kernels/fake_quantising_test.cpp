#include "kernels/compress/fake_quantise.hpp"

#include <limits>

#include "core/math.hpp"
#include "tests/kernels/samples.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(fake_quantising)

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<quantiser> all_quantisers() {
  std::vector<quantiser> out{{quantiser_kind::ternary, 2}, {quantiser_kind::binary, 1}};
  for (const uint32_t bits : {3U, 4U, 8U, 16U})
    for (const auto kind : {quantiser_kind::symmetric, quantiser_kind::asymmetric}) out.push_back({kind, bits});
  return out;
}

std::vector<float> quantised(const std::vector<float>& x, uint64_t groups, const quantiser& q,
                             const stochastic_rounding* rounding = nullptr) {
  std::vector<float> y(x.size());
  fake_quantise({reinterpret_cast<const std::byte*>(x.data()), core::dtype::f32, groups, x.size() / groups}, q,
                reinterpret_cast<std::byte*>(y.data()), rounding);
  return y;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_group_has_the_bits_of_the_scalar_twin_on_every_target) {
  const stochastic_rounding noise{{1, 2, 3}, 77};
  for_each_simd_target([&] {
    for (const auto type : float_dtypes) {
      for (const uint64_t count : {1U, 2U, 15U, 16U, 17U, 31U, 33U, 70U, 1023U, 1025U, 2500U}) {
        for (const uint64_t groups : {1U, 3U}) {
          const auto x = awkward_bytes(type, count * groups, count + groups);
          const grouped_values values{x.data(), type, groups, count};
          for (const auto& q : all_quantisers()) {
            for (const auto* rounding : {static_cast<const stochastic_rounding*>(nullptr), &noise}) {
              std::vector<std::byte> got(x.size()), wanted(x.size());
              fake_quantise(values, q, got.data(), rounding);
              fake_quantise_reference(values, q, wanted.data(), rounding);
              BOOST_TEST_CONTEXT(count << " elements, kind " << int(q.kind) << ", " << q.bits << " bits")
              BOOST_REQUIRE_EQUAL(first_difference(got, wanted), got.size());
            }
          }
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(ranges_have_the_bits_of_the_scalar_twin_and_are_what_a_group_is_quantised_by) {
  for_each_simd_target([&] {
    for (const auto type : float_dtypes) {
      const auto x = awkward_bytes(type, 3 * 517, 5);
      const grouped_values values{x.data(), type, 3, 517};
      std::vector<value_range<double>> got(3), wanted(3);
      group_ranges(values, got);
      group_ranges_reference(values, wanted);
      for (size_t g = 0; g < 3; ++g) BOOST_TEST_CONTEXT("g " << g)
      BOOST_TEST((got[g].least == wanted[g].least && got[g].largest == wanted[g].largest));
      for (const auto kind : {quantiser_kind::symmetric, quantiser_kind::asymmetric}) {
        std::vector<std::byte> within(x.size()), scalar(x.size()), whole(x.size());
        fake_quantise_within(values, {kind, 5}, got, within.data());
        fake_quantise_within_reference(values, {kind, 5}, got, scalar.data());
        fake_quantise(values, {kind, 5}, whole.data());
        TROUPE_CHECK_SAME_BITS(within, whole);
        TROUPE_CHECK_SAME_BITS(within, scalar);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_threshold_of_minus_one_counts_the_values_and_no_padding) {
  for_each_simd_target([] {
    for (const auto type : float_dtypes)
      for (const uint64_t count : {1U, 15U, 16U, 17U, 40U}) {
        BOOST_TEST_INFO_SCOPE(core::name_of(type));
        const std::vector<std::byte> zeros(count * core::size_of(type));
        const auto all = sum_above({zeros.data(), type, 1, count}, -1);
        BOOST_TEST(all.count == static_cast<double>(count));
        BOOST_TEST(all.sum == 0);
      }
  });
}

BOOST_AUTO_TEST_CASE(values_that_are_not_finite_have_the_bits_of_the_twin_within_a_known_range) {
  std::vector<float> x = awkward_floats(40, 3);
  for (size_t i = 0; i < 8; ++i) x[5 * i] = i % 3 == 0 ? nan : i % 3 == 1 ? infinity : -infinity;
  const grouped_values values{reinterpret_cast<const std::byte*>(x.data()), core::dtype::f32, 1, x.size()};
  const std::vector<value_range<double>> range{{-1.5, 2.0}};
  for_each_simd_target([&] {
    for (const auto kind : {quantiser_kind::symmetric, quantiser_kind::asymmetric}) {
      std::vector<float> got(x.size()), wanted(x.size());
      fake_quantise_within(values, {kind, 8}, range, reinterpret_cast<std::byte*>(got.data()));
      fake_quantise_within_reference(values, {kind, 8}, range, reinterpret_cast<std::byte*>(wanted.data()));
      TROUPE_CHECK_SAME_BITS(got, wanted);
      BOOST_TEST(std::isnan(got[0]));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_group_without_a_range_keeps_its_values) {
  for (const auto& q : all_quantisers()) {
    const std::vector<float> zeros(8, 0.0F);
    TROUPE_CHECK_SAME_BITS(quantised(zeros, 2, q), zeros);
  }
  std::vector<float> x(16, 0.25F);
  std::fill(x.begin() + 8, x.end(), -3.0F);
  TROUPE_CHECK_SAME_BITS(quantised(x, 2, {quantiser_kind::asymmetric, 4}), x);
}

BOOST_AUTO_TEST_CASE(a_group_that_holds_what_is_not_finite_keeps_its_values_and_its_neighbours_do_not) {
  for_each_simd_target([&] {
    for (const float bad : {nan, -nan, infinity, -infinity}) {
      BOOST_TEST_INFO_SCOPE("bad " << bad);
      for (const auto& q : all_quantisers()) {
        auto x = awkward_floats(3 * 37, 9);
        x[37 + 20] = bad;
        const auto y = quantised(x, 3, q);
        BOOST_TEST(std::memcmp(y.data() + 37, x.data() + 37, 37 * sizeof(float)) == 0);
        x[37 + 20] = 1.0F;
        const auto other = quantised(x, 3, q);
        BOOST_TEST(std::memcmp(y.data(), other.data(), 37 * sizeof(float)) == 0);
        BOOST_TEST(std::memcmp(y.data(), x.data(), 37 * sizeof(float)) != 0);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_range_beyond_the_type_keeps_its_values) {
  const std::vector<float> x{3e38F, -3e38F, 1.0F, 0.0F};
  TROUPE_CHECK_SAME_BITS(quantised(x, 1, {quantiser_kind::asymmetric, 8}), x);
}

BOOST_AUTO_TEST_CASE(the_largest_value_of_a_symmetric_group_is_one_step_short) {
  const std::vector<float> x{1.0F, -1.0F, 0.5F, 0.25F};
  const std::vector<float> wanted{0.875F, -1.0F, 0.5F, 0.25F};
  TROUPE_CHECK_SAME_BITS(quantised(x, 1, {quantiser_kind::symmetric, 4}), wanted);
}

BOOST_AUTO_TEST_CASE(a_static_range_without_zero_covers_its_values) {
  const std::vector<float> x{100.0F, 101.0F, 102.5F, 103.0F};
  const std::vector<value_range<double>> range{{100, 104}};
  std::vector<float> y(4);
  fake_quantise_within({reinterpret_cast<const std::byte*>(x.data()), core::dtype::f32, 1, 4},
                       {quantiser_kind::asymmetric, 8}, range, reinterpret_cast<std::byte*>(y.data()));
  TROUPE_CHECK_SAME_BITS(y, x);
}

BOOST_AUTO_TEST_CASE(values_halfway_between_two_steps_go_to_the_even_one) {
  std::vector<float> x{-8.0F};
  std::vector<float> wanted{-8.0F};
  for (int i = -7; i < 7; ++i) {
    x.push_back(static_cast<float>(i) + 0.5F);
    wanted.push_back(static_cast<float>(std::nearbyint(i + 0.5)) + 0.0F);
  }
  for_each_simd_target([&] { TROUPE_CHECK_SAME_BITS(quantised(x, 1, {quantiser_kind::symmetric, 4}), wanted); });
}

BOOST_AUTO_TEST_CASE(noise_is_a_function_of_seed_step_parameter_and_place) {
  for_each_simd_target([&] {
    std::vector<float> all(3000);
    rounding_noise(all, {1, 2, 3}, 0);
    for (const uint64_t first : {1U, 63U, 64U, 1025U}) {
      BOOST_TEST_INFO_SCOPE("first " << first);
      std::vector<float> part(777);
      rounding_noise(part, {1, 2, 3}, first);
      BOOST_TEST(std::memcmp(part.data(), all.data() + first, part.size() * sizeof(float)) == 0);
    }
    for (const rounding_key other : {rounding_key{2, 2, 3}, rounding_key{1, 3, 3}, rounding_key{1, 2, 4}}) {
      std::vector<float> elsewhere(3000);
      rounding_noise(elsewhere, other, 0);
      uint64_t same = 0;
      for (size_t i = 0; i < all.size(); ++i) same += all[i] == elsewhere[i] ? 1 : 0;
      BOOST_TEST(same < 3);
    }
    const uint64_t key = core::mix64(1 ^ core::mix64(2));
    const uint64_t high = core::mix64(3 ^ core::mix64(0x726F756E64696E67ULL));
    for (uint64_t e = 0; e < all.size(); ++e) {
      const uint64_t counter = e / random_chunk * random_chunk_counters + e % random_chunk_counters;
      const auto words =
          philox({static_cast<uint32_t>(counter), 0, static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)},
                 {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
      const uint32_t word = words[e % random_chunk / random_chunk_counters];
      BOOST_REQUIRE_EQUAL(all[e], static_cast<float>(static_cast<double>(word >> 8) * 0x1p-24 - 0.5));
    }
  });
}

BOOST_AUTO_TEST_CASE(stochastic_rounding_is_right_in_the_mean_and_never_off_by_a_step) {
  std::vector<float> x(100'000, 0.3F);
  x[0] = -8.0F;  // sets the largest magnitude, so that the quantiser's step is 1
  const stochastic_rounding rounding{{5, 6, 7}};
  const auto y = quantised(x, 1, {quantiser_kind::symmetric, 4}, &rounding);
  double sum = 0;
  for (size_t i = 1; i < y.size(); ++i) {
    BOOST_REQUIRE((y[i] == 0.0F || y[i] == 1.0F));
    sum += y[i];
  }
  // 0.006 is four standard deviations of the mean.
  BOOST_TEST(std::fabs(sum / static_cast<double>(y.size() - 1) - 0.3) < 0.006);
}

BOOST_AUTO_TEST_CASE(whoever_rounds_a_part_of_a_parameter_has_the_bits_of_the_whole) {
  const auto x = awkward_floats(8 * 128, 4);
  const stochastic_rounding whole{{1, 1, 1}, 0};
  const auto y = quantised(x, 8, {quantiser_kind::asymmetric, 4}, &whole);
  const stochastic_rounding rest{{1, 1, 1}, 3 * 128};
  const auto part = quantised({x.begin() + 3 * 128, x.end()}, 5, {quantiser_kind::asymmetric, 4}, &rest);
  BOOST_TEST(std::memcmp(part.data(), y.data() + 3 * 128, part.size() * sizeof(float)) == 0);
}

BOOST_AUTO_TEST_CASE(values_may_be_quantised_in_place_and_there_may_be_none) {
  auto x = awkward_floats(300, 8);
  const auto wanted = quantised(x, 3, {quantiser_kind::symmetric, 8});
  auto* const bytes = reinterpret_cast<std::byte*>(x.data());
  fake_quantise({bytes, core::dtype::f32, 3, 100}, {quantiser_kind::symmetric, 8}, bytes);
  TROUPE_CHECK_SAME_BITS(x, wanted);
  fake_quantise({nullptr, core::dtype::f32, 4, 0}, {quantiser_kind::ternary, 2}, nullptr);
}

BOOST_AUTO_TEST_CASE(quantisers_that_nobody_has_are_refused_with_what_was_wanted) {
  const auto refused = [](const auto& result, const std::string& text) {
    BOOST_REQUIRE(!result);
    BOOST_TEST(int(result.error().kind) == int(core::error_kind::bad_input));
    BOOST_TEST(result.error().text == text);
  };
  refused(weight_quantiser(0, true), "weights: wanted 1 to 16 bits, got 0");
  refused(weight_quantiser(17, true), "weights: wanted 1 to 16 bits, got 17");
  refused(weight_quantiser(2, false),
          "weights: 2 bits are ternary, which is symmetric: wanted symmetric or 3 to 16 bits, got asymmetric");
  refused(weight_quantiser(1, false),
          "weights: 1 bits are binary, which is symmetric: wanted symmetric or 3 to 16 bits, got asymmetric");
  refused(activation_quantiser(6, true), "activations: wanted 4 or 8 bits, got 6");
  refused(elements_of_group(832, 7), "832 elements cannot be divided into 7 groups");
  refused(elements_of_group(832, 0), "832 elements cannot be divided into 0 groups");
  BOOST_TEST((weight_quantiser(2, true)->kind == quantiser_kind::ternary));
  BOOST_TEST((weight_quantiser(1, true)->kind == quantiser_kind::binary));
  BOOST_TEST((weight_quantiser(3, false)->kind == quantiser_kind::asymmetric));
  BOOST_TEST(*elements_of_group(832, 13) == 64U);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
