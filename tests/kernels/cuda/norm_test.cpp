#include "kernels/sums/norm.hpp"

#include "core/math.hpp"
#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/cuda/numbers.hpp"

namespace troupe::kernels::cuda::tests {
BOOST_AUTO_TEST_SUITE(norm)

namespace {

void compare_sums(core::dtype type, const std::vector<std::byte>& values, uint64_t shift = 0) {
  const uint64_t count = values.size() / core::size_of(type);
  std::vector<double> wanted(core::div_up(count, core::partition_grain), -1.0);
  kernels::block_square_sums(values.data(), type, count, wanted);
  device_array<std::byte> x(values, shift * core::size_of(type));
  device_array<double> out(std::vector<double>(wanted.size(), -2.0));
  const squared_elements all{x.data(), count, {out.data(), wanted.size()}};
  require(cuda::block_square_sums({&all, 1}, type, test_stream()));
  BOOST_TEST_CONTEXT(count << " elements of " << core::name_of(type) << ", shifted by " << shift)
  require_same(out.back(), wanted);
}

/// Returns `*found` after the search for a non-finite value; `*found` is `before` at the start.
uint32_t searched(core::dtype type, const std::vector<std::byte>& values, uint32_t before = 0, uint64_t shift = 0) {
  device_array<std::byte> x(values, shift * core::size_of(type));
  device_array<uint32_t> found(std::vector<uint32_t>{before});
  require(cuda::has_nonfinite(x.data(), type, values.size() / core::size_of(type), found.data(), test_stream()));
  return found.back()[0];
}

}  // namespace

BOOST_AUTO_TEST_CASE(sums_of_squares_of_every_type_and_count_have_the_cpus_bits) {
  for (const auto type : float_dtypes)
    for (const uint64_t count : ragged_counts) {
      compare_sums(type, awkward_bytes(type, count, count));
      compare_sums(type, hard_bytes(type, count, count));
    }
}

BOOST_AUTO_TEST_CASE(doubles_of_all_magnitudes_have_sums_with_the_cpus_bits) {
  std::mt19937_64 random(4);
  std::vector<double> values(50'001);
  for (auto& x : values)
    x = std::ldexp(static_cast<double>(random()) * 0x1p-64, static_cast<int>(random() % 2000) - 1000);
  std::vector<std::byte> bytes(values.size() * sizeof(double));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  compare_sums(core::dtype::f64, bytes);
}

BOOST_AUTO_TEST_CASE(arrays_may_begin_at_any_element) {
  for (const auto type : float_dtypes)
    for (uint64_t shift = 1; shift < 9; ++shift) compare_sums(type, awkward_bytes(type, 3001, 8), shift);
}

BOOST_AUTO_TEST_CASE(sums_of_many_arrays_are_formed_at_once) {
  constexpr uint64_t arrays = 500;  // more arrays than one launch can process
  for (const auto type : float_dtypes) {
    std::vector<std::vector<double>> wanted;
    std::vector<device_array<std::byte>> in;
    std::vector<device_array<double>> out;
    std::vector<squared_elements> all;
    for (uint64_t k = 0; k < arrays; ++k) {
      const uint64_t count = k % 7 == 0 ? 0 : (k * k * 37) % 5003, blocks = core::div_up(count, core::partition_grain);
      const auto values = awkward_bytes(type, count, k);
      kernels::block_square_sums(values.data(), type, count, wanted.emplace_back(blocks));
      in.emplace_back(values, k % 11 == 0 ? core::size_of(type) : 0);
      out.emplace_back(std::vector<double>(blocks, -2.0));
      all.push_back({in.back().data(), count, {out.back().data(), blocks}});
    }
    require(cuda::block_square_sums(all, type, test_stream()));
    for (uint64_t k = 0; k < arrays; ++k)
      BOOST_TEST_CONTEXT("array " << k << " of " << core::name_of(type)) require_same(out[k].back(), wanted[k]);
  }
}

BOOST_AUTO_TEST_CASE(one_infinity_or_nan_is_found_wherever_it_stands) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto type : float_dtypes)
    for (const uint64_t count : {1U, 5U, 16U, 33U, 300U, 1500U, 70'001U}) {
      BOOST_TEST_INFO_SCOPE("count " << count);
      auto values = awkward_floats(count, 9);
      BOOST_REQUIRE_EQUAL(searched(type, stored_as(type, values)), 0U);
      for (uint64_t place = 0; place < count; place += count < 40 ? 1 : count / 17)
        for (const float bad : {infinity, -infinity, nan, -nan}) {
          BOOST_TEST_INFO_SCOPE("bad " << bad);
          auto spoiled = values;
          spoiled[place] = bad;
          const auto stored = stored_as(type, spoiled);
          BOOST_REQUIRE(kernels::has_nonfinite(stored.data(), type, count));
          BOOST_REQUIRE_EQUAL(searched(type, stored), 1U);
          BOOST_REQUIRE_EQUAL(searched(type, stored, 0, place % 8 + 1), 1U);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_last_of_more_elements_than_a_grid_has_threads_is_looked_at) {
  for (const auto type : fp32_dtypes) {
    auto values = std::vector<float>(more_than_a_grid, 1.0F);
    BOOST_TEST(searched(type, stored_as(type, values)) == 0U);
    values.back() = std::numeric_limits<float>::infinity();
    BOOST_TEST(searched(type, stored_as(type, values)) == 1U);
  }
}

BOOST_AUTO_TEST_CASE(what_was_found_before_stays_found) {
  for (const auto type : float_dtypes) {
    BOOST_TEST(searched(type, stored_as(type, {1.0F, 2.0F}), 1) == 1U);
    BOOST_TEST(searched(type, {}, 1) == 1U);
    BOOST_TEST(searched(type, {}, 0) == 0U);
  }
}

BOOST_AUTO_TEST_CASE(the_largest_finite_number_and_the_least_of_each_type_are_finite) {
  for (const auto type : float_dtypes) {
    const float largest = type == core::dtype::f16 ? 65504.0F : 0x1.FEp127F;
    const float least = type == core::dtype::f16 ? 0x1p-24F : 0x1p-133F;
    BOOST_TEST(searched(type, stored_as(type, {largest, -largest, least, -least, 0.0F, -0.0F})) == 0U);
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
