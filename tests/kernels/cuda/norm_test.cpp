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

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
