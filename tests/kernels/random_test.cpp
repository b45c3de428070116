#include "kernels/base/random.hpp"

#include <algorithm>

#include "core/math.hpp"
#include "tests/kernels/samples.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(random)

namespace {
/// Returns the 32-bit word of an element of the chunked random stream, computed by the definition in the header.
uint32_t word_of(uint64_t key, uint64_t high, uint64_t element) {
  const uint64_t counter = element / random_chunk * random_chunk_counters + element % random_chunk_counters;
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto upper = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  return philox({low(counter), upper(counter), low(high), upper(high)},
                {low(key), upper(key)})[element % random_chunk / random_chunk_counters];
}

std::vector<float> normals(uint64_t count, uint64_t first, uint64_t seed = 1, uint64_t stream = 2) {
  std::vector<float> out(count);
  fill_normal(out, seed, stream, first, 0.0F, 1.0F);
  return out;
}

std::vector<uint8_t> mask(uint64_t count, uint64_t first, float p, uint64_t step = 3, uint64_t sample = 4,
                          uint32_t layer = 5, uint32_t site = 6) {
  std::vector<uint8_t> out(count);
  dropout_mask(out, p, 1, step, sample, layer, site, first);
  return out;
}
}  // namespace

BOOST_AUTO_TEST_CASE(philox_gives_the_known_answers_of_its_authors) {
  BOOST_CHECK((philox({0, 0, 0, 0}, {0, 0}) == uint32x4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  BOOST_CHECK((philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}) == uint32x4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  BOOST_CHECK((philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
               uint32x4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

BOOST_AUTO_TEST_CASE(a_mask_compares_the_word_of_each_position_on_every_target) {
  const uint64_t far = (uint64_t{1} << 35) + 7;  // makes the Philox counter exceed 32 bits
  for_each_simd_target([&] {
    for (const uint64_t first : {uint64_t{0}, far}) {
      const auto got = mask(300, first, 0.25F);
      const uint64_t key = core::mix64(1 ^ core::mix64(3));
      const uint64_t high = core::mix64(4 ^ core::mix64((uint64_t{5} << 32) | 6));
      for (uint64_t i = 0; i < got.size(); ++i) {
        BOOST_REQUIRE_EQUAL(int{got[i]}, word_of(key, high, first + i) >= 0x40000000U ? 1 : 0);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(normal_numbers_are_box_and_muller_of_the_words_on_every_target) {
  std::vector<float> first_target;
  for_each_simd_target([&] {
    const auto got = normals(4096, 64);
    for (uint64_t i = 0; i < got.size(); ++i) {
      const uint64_t element = 64 + i;
      const bool second = element % 32 >= 16;
      const uint64_t even = second ? element - 16 : element;
      const double radius = std::sqrt(-2 * std::log((word_of(1, 2, even) + 0.5) * 0x1p-32));
      const double angle = 2 * M_PI * (word_of(1, 2, even + 16) + 0.5) * 0x1p-32;
      const double wanted = radius * (second ? std::sin(angle) : std::cos(angle));
      BOOST_REQUIRE_SMALL(static_cast<double>(got[i]) - wanted, 1e-7 * std::abs(wanted) + 1e-14);
    }
    if (first_target.empty()) first_target = got;
    TROUPE_CHECK_SAME_BITS(got, first_target);
  });
}

BOOST_AUTO_TEST_CASE(any_slice_has_the_bits_of_the_whole) {
  const auto all = normals(1000, 0);
  const auto all_kept = mask(1000, 0, 0.3F);
  for (const uint64_t first : {0U, 1U, 63U, 64U, 65U, 500U}) {
    for (const uint64_t count : {0U, 1U, 15U, 64U, 129U, 400U}) {
      BOOST_TEST_INFO_SCOPE("count " << count);
      const auto slice = normals(count, first);
      const auto kept = mask(count, first, 0.3F);
      BOOST_CHECK(std::equal(slice.begin(), slice.end(), all.begin() + static_cast<int64_t>(first)));
      BOOST_CHECK(std::equal(kept.begin(), kept.end(), all_kept.begin() + static_cast<int64_t>(first)));
    }
  }
}

BOOST_AUTO_TEST_CASE(normal_numbers_have_the_wanted_moments) {
  std::vector<float> x(400000);
  fill_normal(x, 9, 0, 0, 0.5F, 0.02F);
  double mean = 0;
  for (const float v : x) mean += static_cast<double>(v);
  mean /= static_cast<double>(x.size());
  double second = 0;
  double fourth = 0;
  for (const float v : x) {
    const double z = (static_cast<double>(v) - 0.5) / 0.02;
    second += z * z;
    fourth += z * z * z * z;
  }
  const auto n = static_cast<double>(x.size());
  BOOST_CHECK_SMALL((mean - 0.5) / 0.02, 5 / std::sqrt(n));  // the mean deviates by less than five standard errors
  BOOST_CHECK_SMALL(second / n - 1, 5 * std::sqrt(2 / n));
  BOOST_CHECK_SMALL(fourth / n - 3, 5 * std::sqrt(96 / n));
}

BOOST_AUTO_TEST_CASE(no_number_is_larger_than_the_smallest_word_makes_it) {
  const double largest = std::sqrt(-2 * std::log(0x1p-33));
  for (const float v : normals(1000000, 0, 77)) BOOST_REQUIRE_LE(std::abs(v), largest + 1e-6);
}

BOOST_AUTO_TEST_CASE(other_keys_give_other_numbers) {
  BOOST_CHECK(normals(64, 0, 1, 2) != normals(64, 0, 2, 2));
  BOOST_CHECK(normals(64, 0, 1, 2) != normals(64, 0, 1, 3));
  const auto base = mask(256, 0, 0.5F);
  BOOST_CHECK(base != mask(256, 0, 0.5F, 4));
  BOOST_CHECK(base != mask(256, 0, 0.5F, 3, 5));
  BOOST_CHECK(base != mask(256, 0, 0.5F, 3, 4, 6));
  BOOST_CHECK(base != mask(256, 0, 0.5F, 3, 4, 5, 7));
}

BOOST_AUTO_TEST_CASE(the_share_of_kept_positions_is_one_minus_p) {
  const auto none_dropped = mask(1000, 0, 0.0F);
  BOOST_CHECK_EQUAL(std::count(none_dropped.begin(), none_dropped.end(), 1), 1000);
  const auto all_dropped = mask(1000, 0, 1.0F);
  BOOST_CHECK_EQUAL(std::count(all_dropped.begin(), all_dropped.end(), 1), 0);
  const auto some = mask(1000000, 0, 0.1F);
  const double kept = static_cast<double>(std::count(some.begin(), some.end(), 1)) / 1e6;
  BOOST_CHECK_SMALL(kept - 0.9, 5 * std::sqrt(0.09 / 1e6));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
