// Tests that a weight stored as (inputs, outputs) is compressed to the same values as its transpose.
#include "kernels/compress/compressed_weight.hpp"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <random>
#include <span>
#include <vector>

BOOST_AUTO_TEST_SUITE(compressed_weight)

using namespace troupe;
using namespace troupe::kernels;

namespace {

constexpr uint64_t outputs = 96, inputs = 20;

/// Returns a weight of shape (outputs, inputs) in which some rows hold zeros of both signs; `with_nan` adds a NaN.
std::vector<float> weight(bool with_nan) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> out(outputs * inputs);
  for (uint64_t i = 0; i < out.size(); ++i)
    out[i] = i < 24 * inputs ? (i % 3 == 0 ? -0.0F : 0.0F) : normal(random) * (i % 7 == 0 ? 30.0F : 1.0F);
  if (with_nan) out[40 * inputs + 3] = std::numeric_limits<float>::quiet_NaN();
  return out;
}

std::vector<float> transposed(const std::vector<float>& x, uint64_t rows, uint64_t columns) {
  std::vector<float> out(x.size());
  for (uint64_t r = 0; r < rows; ++r)
    for (uint64_t c = 0; c < columns; ++c) out[c * rows + r] = x[r * columns + c];
  return out;
}

std::vector<uint32_t> bits(const std::vector<float>& x) {
  std::vector<uint32_t> out;
  for (const float v : x) out.push_back(std::bit_cast<uint32_t>(v));
  return out;
}

std::vector<float> compressed(weight_recipe r, const std::vector<float>& x, const weight_moment& now) {
  std::vector<float> out(x.size()), room(r.room_elements());
  compress_weight(r, core::dtype::f32, reinterpret_cast<const std::byte*>(x.data()),
                  reinterpret_cast<std::byte*>(out.data()), std::as_writable_bytes(std::span(room)), now);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_matrix_and_its_transpose_have_the_same_bits_whatever_the_groups) {
  for (const bool with_nan : {false, true})
    for (const quantiser grid : {quantiser{quantiser_kind::symmetric, 4}, quantiser{quantiser_kind::asymmetric, 8},
                                 quantiser{quantiser_kind::ternary, 2}, quantiser{quantiser_kind::binary, 1}})
      // The group counts cover all cases: 4 groups of 24 outputs are compressed in place, 8 groups of 12 are too narrow
      // for that, and 5 and 64 groups do not end at whole outputs.
      for (const uint64_t groups : {1, 4, 5, 8, 64})
        for (const bool noisy : {false, true}) {
          weight_moment now;
          if (noisy) now.noise = rounding_key{3, 4, 5};
          const auto x = weight(with_nan);
          weight_recipe r{grid, groups, outputs, inputs, false, noisy};
          const auto wanted = compressed(r, x, now);
          r = {grid, groups, inputs, outputs, true, noisy};
          const auto got = compressed(r, transposed(x, outputs, inputs), now);
          BOOST_TEST(bits(transposed(got, inputs, outputs)) == bits(wanted),
                     groups << " groups, kind " << int(grid.kind) << (noisy ? ", noise" : ""));
        }
}

BOOST_AUTO_TEST_SUITE_END()
