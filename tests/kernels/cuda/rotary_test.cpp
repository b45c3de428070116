#include "kernels/layers/rotary.hpp"

#include <numeric>

#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/cuda/numbers.hpp"

namespace troupe::kernels::cuda::tests {
BOOST_AUTO_TEST_SUITE(rotary)

namespace {

/// The attention heads of some tokens and their memory layout. Strides are in elements; 0 means that the heads of
/// consecutive tokens are adjacent.
struct heads_shape {
  uint64_t rows = 2, columns = 5, heads = 3, width = 16;
  uint64_t from_stride = 0, to_stride = 0;
  bool turns = true, has_starts = false, back = false, in_place = false;
  uint64_t shift = 0;
};

void compare(core::dtype type, const heads_shape& s) {
  const uint64_t bytes = core::size_of(type), tokens = s.rows * s.columns, touching = s.heads * s.width;
  const uint64_t from_stride = std::max(s.from_stride, touching),
                 to_stride = s.in_place ? from_stride : std::max(s.to_stride, touching);
  std::vector<std::byte> in = hard_bytes(type, tokens * from_stride, tokens);
  std::vector<std::byte> out(tokens * to_stride * bytes, std::byte{0x5A});
  std::vector<float> cosines = awkward_floats(s.columns * s.width / 2, 3), sines = awkward_floats(cosines.size(), 4);
  std::vector<int32_t> starts(tokens);
  for (uint64_t t = 0; t < tokens; ++t) starts[t] = static_cast<int32_t>(t % s.columns / 2);
  device_array<std::byte> device_in(in, s.shift * bytes), device_out(out, 2 * s.shift * bytes);
  device_array<float> device_cosines(cosines, s.shift), device_sines(sines, s.shift);
  device_array<int32_t> device_starts(starts);
  const auto call = [&](std::byte* from, std::byte* to, float* c, float* sine, int32_t* start, auto&& turn) {
    turn(token_heads{from, s.in_place ? from : to, from_stride * bytes, to_stride * bytes, type, tokens, s.heads,
                     s.width},
         rotary_table{s.turns ? reinterpret_cast<const std::byte*>(c) : nullptr,
                      reinterpret_cast<const std::byte*>(sine), s.has_starts ? start : nullptr, s.columns, s.back});
  };
  call(in.data(), out.data(), cosines.data(), sines.data(), starts.data(),
       [](const auto& x, const auto& table) { kernels::turn_tokens(x, table); });
  call(device_in.data(), device_out.data(), device_cosines.data(), device_sines.data(), device_starts.data(),
       [](const auto& x, const auto& table) { require(cuda::turn_tokens(x, table, test_stream())); });
  BOOST_TEST_CONTEXT(tokens << " tokens of " << s.heads << " heads of " << s.width << " elements of "
                            << core::name_of(type) << ", shifted by " << s.shift) {
    require_same(type, device_in.back(), in);
    require_same(type, device_out.back(), out);
    require_same_bits(device_cosines.back(), cosines);
    require_same_bits(device_starts.back(), starts);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(heads_of_every_type_and_width_turn_with_the_cpus_bits) {
  for (const auto type : fp32_dtypes)
    for (const uint64_t width : {2U, 4U, 6U, 8U, 16U, 32U, 64U, 100U, 128U})
      for (const uint64_t heads : {1U, 3U, 12U})
        for (const bool back : {false, true})
          for (const bool has_starts : {false, true})
            compare(type,
                    {.heads = heads, .width = width, .has_starts = has_starts, .back = back, .in_place = heads == 3});
}

BOOST_AUTO_TEST_CASE(heads_among_others_and_at_any_start_are_turned_and_moved) {
  for (const auto type : fp32_dtypes)
    for (const bool turns : {false, true})
      for (const bool in_place : {false, true})
        for (uint64_t shift = 0; shift < 9; ++shift)
          for (const uint64_t more : {0U, 3U, 8U, 16U}) {
            heads_shape s{.heads = 4, .width = 32, .turns = turns, .in_place = in_place, .shift = shift};
            s.from_stride = 3 * s.heads * s.width + more;
            s.to_stride = s.heads * s.width + 2 * more;
            compare(type, s);
          }
}

BOOST_AUTO_TEST_CASE(no_tokens_and_more_than_a_grid_takes_at_once_give_the_cpus_bits) {
  for (const auto type : fp32_dtypes) {
    compare(type, {.rows = 0});
    for (const bool turns : {false, true})
      compare(type, {.rows = 3, .columns = more_than_a_grid / 3 / 64, .heads = 2, .width = 64, .turns = turns});
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
