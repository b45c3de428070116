// Tests that quantised blocks equal the packing of their grid and codes, and that column weights lower the error of the
// columns with high weights.
#include "kernels/compress/block_codes.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/math.hpp"

BOOST_AUTO_TEST_SUITE(block_codes)

using namespace troupe;
using namespace troupe::kernels;

namespace {

std::vector<float> numbers(size_t count, uint64_t seed) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(core::mix64(seed * 9973 + i) >> 40) * 0x1p-24F - 0.4F;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_block_is_its_grid_and_its_codes_byte_for_byte) {
  for (const auto f :
       {block_format::q8_0, block_format::q4_0, block_format::q4_1, block_format::q5_0, block_format::q5_1})
    for (uint64_t seed = 0; seed < 50; ++seed) {
      BOOST_TEST_INFO_SCOPE("seed " << seed);
      const auto x = numbers(32, seed);
      std::array<std::byte, 64> block{}, again{};
      BOOST_TEST_REQUIRE(quantise_blocks(f, x.data(), 1, block.data()) == no_block);
      std::array<float, 32> values{};
      dequantise_blocks(f, block.data(), 1, values.data());
      const auto grid = grid_of(f, block.data());
      std::array<int16_t, 32> q{};
      for (size_t i = 0; i < 32; ++i) {
        BOOST_TEST_INFO_SCOPE("i " << i);
        q[i] = static_cast<int16_t>(std::lround((values[i] - grid.offset) / grid.scale));
        BOOST_TEST((q[i] >= grid.low && q[i] <= grid.high));
      }
      pack_block(f, grid, q, again.data());
      BOOST_TEST(std::memcmp(block.data(), again.data(), bytes_of(f)) == 0);
    }
}

BOOST_AUTO_TEST_CASE(weights_lower_the_error_of_the_columns_that_they_raise) {
  for (const auto f : {block_format::q4_0, block_format::q4_1, block_format::q5_0, block_format::q5_1,
                       block_format::q4_k, block_format::q5_k, block_format::q6_k}) {
    const uint64_t row_blocks = 256 / elements_of(f), blocks = 2 * row_blocks;
    double plain_error = 0, error = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      BOOST_TEST_INFO_SCOPE("seed " << seed);
      const auto x = numbers(512, seed);
      std::vector<float> w(256);
      for (size_t i = 0; i < w.size(); ++i) w[i] = i % 5 == 0 ? 100.0F : 1.0F;
      std::vector<std::byte> plain(blocks * bytes_of(f)), weighted(plain.size()), alike(plain.size());
      BOOST_TEST_REQUIRE(quantise_blocks(f, x.data(), blocks, plain.data()) == no_block);
      BOOST_TEST_REQUIRE(quantise_blocks_weighted(f, x.data(), w.data(), row_blocks, blocks, weighted.data()) ==
                         no_block);
      const std::vector<float> ones(256, 1.0F);
      BOOST_TEST_REQUIRE(quantise_blocks_weighted(f, x.data(), ones.data(), row_blocks, blocks, alike.data()) ==
                         no_block);
      if (row_blocks == 1) BOOST_TEST(std::memcmp(alike.data(), plain.data(), plain.size()) == 0);
      std::vector<float> a(512), b(512);
      dequantise_blocks(f, plain.data(), blocks, a.data());
      dequantise_blocks(f, weighted.data(), blocks, b.data());
      for (size_t i = 0; i < 512; ++i) {
        plain_error += static_cast<double>(w[i % 256] * (a[i] - x[i]) * (a[i] - x[i]));
        error += static_cast<double>(w[i % 256] * (b[i] - x[i]) * (b[i] - x[i]));
      }
    }
    BOOST_TEST(error < 0.9 * plain_error, static_cast<int>(f) << ": " << error << " and " << plain_error);
  }
}

BOOST_AUTO_TEST_SUITE_END()
