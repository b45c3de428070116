#include "kernels/compress/weight_codes.hpp"

#include <limits>

#include "kernels/base/small_floats.hpp"
#include "tests/kernels/samples.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(weight_codes)

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

/// Returns the code whose value is nearest to x, or the even code if two are equally near.
template <class Decode>
uint8_t nearest(float x, unsigned codes, Decode decode) {
  uint8_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (unsigned c = 0; c < codes; ++c) {
    const auto value = static_cast<double>(decode(static_cast<uint8_t>(c)));
    if (std::isnan(value) || std::signbit(value) != std::signbit(x)) continue;
    const double distance = std::fabs(value - static_cast<double>(x));
    if (distance < least || (distance == least && c % 2 == 0)) {
      least = distance;
      best = static_cast<uint8_t>(c);
    }
  }
  return best;
}

std::vector<float> decoded(const code_format& f, const group_scale& s, const std::vector<uint8_t>& codes,
                           float global = 1) {
  std::vector<float> out(codes.size());
  decode(f, s, codes, out, global);
  return out;
}
std::vector<uint8_t> encoded(const code_format& f, const group_scale& s, const std::vector<float>& x,
                             float global = 1) {
  std::vector<uint8_t> out(x.size());
  encode(f, s, x, out, global);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(numbers_of_8_and_4_bits_come_back_as_they_are) {
  for (unsigned c = 0; c < 256; ++c) {
    BOOST_TEST_INFO_SCOPE("c " << c);
    const auto code = static_cast<uint8_t>(c);
    if ((c & 0x7F) == 0x7F)
      BOOST_TEST(std::isnan(float_from_e4m3(code)));
    else
      BOOST_TEST(e4m3_from_float(float_from_e4m3(code)) == code);
  }
  for (unsigned c = 0; c < 16; ++c) {
    BOOST_TEST_INFO_SCOPE("c " << c);
    const auto code = static_cast<uint8_t>(c);
    if (c != 8) BOOST_TEST(e2m1_from_float(float_from_e2m1(code)) == code);  // code 8 is -0, which is encoded as code 0
  }
  BOOST_TEST(float_from_e4m3(0x7E) == e4m3_max);
  BOOST_TEST(float_from_e4m3(0x01) == 0x1p-9F);
  BOOST_TEST(float_from_e4m3(0x08) == 0x1p-6F);
  BOOST_TEST(float_from_e8m0(127) == 1.0F);
  BOOST_TEST(float_from_e8m0(0) == 0x1p-127F);
  BOOST_TEST(float_from_e8m0(254) == 0x1p127F);
  BOOST_TEST(std::isnan(float_from_e8m0(255)));
}

BOOST_AUTO_TEST_CASE(values_become_the_nearest_number_and_halfway_the_even_one) {
  std::vector<float> x = awkward_floats(20'000, 7);
  for (unsigned c = 0; c + 1 < 0x7F; ++c)  // adds every midpoint between two codes, and its neighbours
    for (const float sign : {1.0F, -1.0F}) {
      const float middle =
          sign * (float_from_e4m3(static_cast<uint8_t>(c)) + float_from_e4m3(static_cast<uint8_t>(c + 1))) / 2;
      for (const float toward : {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, sign * infinity)})
        x.push_back(toward);
    }
  for (const float v : {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F})
    for (const float toward : {v, std::nextafter(v, 0.0F), std::nextafter(v, infinity)}) {
      BOOST_TEST_INFO_SCOPE("v " << v);
      x.push_back(toward);
      x.push_back(-toward);
    }
  for (const float v : x) {
    BOOST_TEST_INFO_SCOPE("v " << v);
    BOOST_REQUIRE_EQUAL(int{e4m3_from_float(v)}, int{nearest(v, 256, float_from_e4m3)});
    const float value = float_from_e2m1(e2m1_from_float(v));
    BOOST_REQUIRE_EQUAL(value, float_from_e2m1(nearest(v, 16, float_from_e2m1)));
  }
}

BOOST_AUTO_TEST_CASE(what_is_beyond_a_type_becomes_its_largest_number) {
  for (const float v : {449.0F, 1e30F, infinity}) {
    BOOST_TEST_INFO_SCOPE("v " << v);
    BOOST_TEST(float_from_e4m3(e4m3_from_float(v)) == 448.0F);
    BOOST_TEST(float_from_e4m3(e4m3_from_float(-v)) == -448.0F);
    BOOST_TEST(float_from_e2m1(e2m1_from_float(v)) == 6.0F);
  }
  BOOST_TEST(std::isnan(float_from_e4m3(e4m3_from_float(nan))));
}

BOOST_AUTO_TEST_CASE(a_value_is_within_half_a_step_of_what_its_code_means) {
  for (uint32_t bits = 2; bits <= 8; ++bits)
    for (const bool symmetric : {true, false})
      for (const auto scales : {scale_kind::f32, scale_kind::bf16, scale_kind::f16}) {
        std::vector<float> x(128);
        for (size_t i = 0; i < x.size(); ++i)
          x[i] = std::sin(static_cast<float>(i * i)) * 0.1F + (symmetric ? 0 : 0.06F);
        const code_format f{code_kind::integer, bits, symmetric, scales};
        const auto scale = scale_of(f, x);
        BOOST_REQUIRE(scale);
        const auto codes = encoded(f, *scale, x);
        const auto back = decoded(f, *scale, codes);
        // A bf16 scale has 8 bits of precision, so its rounding may move the ends of the range by fractions of a step.
        const double slack = 0.5 + (1U << bits) * (scales == scale_kind::bf16 ? 0x1p-9 : 0x1p-12);
        for (size_t i = 0; i < x.size(); ++i) {
          const int code = static_cast<int8_t>(codes[i]);
          BOOST_REQUIRE((code >= -(1 << (bits - 1)) && code < 1 << (bits - 1)));
          BOOST_REQUIRE_LE(std::fabs(back[i] - x[i]), slack * scale->scale);
        }
        BOOST_TEST(decoded(f, *scale, {static_cast<uint8_t>(scale->zero)})[0] == 0.0F);
      }
}

BOOST_AUTO_TEST_CASE(zero_is_a_value_of_every_asymmetric_group) {
  const code_format f{code_kind::integer, 4, false, scale_kind::f32};
  for (const auto& x : {std::vector<float>{2, 3, 5}, std::vector<float>{-2, -3, -5}}) {
    const auto scale = scale_of(f, x).value();
    BOOST_TEST(decoded(f, scale, encoded(f, scale, {0}))[0] == 0.0F);
    BOOST_TEST(decoded(f, scale, encoded(f, scale, x))[2] == x[2]);
  }
}

BOOST_AUTO_TEST_CASE(groups_of_zeros_have_scale_1_and_stay_zeros) {
  for (const auto kind : {code_kind::integer, code_kind::e4m3, code_kind::e2m1})
    for (const auto scales : {scale_kind::f32, scale_kind::bf16, scale_kind::e4m3, scale_kind::e8m0}) {
      const code_format f{kind, 4, true, scales};
      const std::vector<float> zeros(32, 0.0F);
      const auto scale = scale_of(f, zeros, 3.0F).value();
      BOOST_TEST(scale.scale == 1.0F);
      BOOST_TEST((decoded(f, scale, encoded(f, scale, zeros, 3.0F), 3.0F) == zeros));
    }
}

BOOST_AUTO_TEST_CASE(scales_of_powers_of_two_bring_the_largest_value_into_the_highest_binade) {
  const code_format f{code_kind::e2m1, 4, true, scale_kind::e8m0};
  for (const float largest : {1.0F, 1.7F, 1.74F, 1.76F, 1.99F, 5.0F, 6.0F, 7.5F, 1e-3F}) {
    BOOST_TEST_INFO_SCOPE("largest " << largest);
    const auto scale = scale_of(f, std::vector<float>{largest, 0.1F * largest}).value().scale;
    BOOST_TEST(std::exp2(std::round(std::log2(scale))) == scale);
    BOOST_TEST(largest / scale >= 3.5F);
    BOOST_TEST(largest / scale < 7.0F);
  }
}

BOOST_AUTO_TEST_CASE(values_that_are_not_finite_and_scales_beyond_their_type_are_refused) {
  for (const float bad : {nan, infinity, -infinity}) {
    BOOST_TEST_INFO_SCOPE("bad " << bad);
    const auto scale = scale_of({}, std::vector<float>{1, bad, 2});
    BOOST_REQUIRE(!scale);
    BOOST_TEST(scale.error().text == "a value is not a finite number");
  }
  const auto half = scale_of({code_kind::integer, 4, true, scale_kind::f16}, std::vector<float>{1e7F});
  BOOST_REQUIRE(!half);
  BOOST_TEST(half.error().text.ends_with("is beyond its type"));
  BOOST_TEST(scale_of({code_kind::integer, 4, true, scale_kind::f16}, std::vector<float>{1e-12F})->scale > 0);
}

BOOST_AUTO_TEST_CASE(packed_codes_come_back_at_every_width_and_count) {
  for (uint32_t bits = 2; bits <= 8; ++bits)
    for (const size_t count : {1U, 7U, 8U, 31U, 32U, 33U, 100U}) {
      BOOST_TEST_INFO_SCOPE("bits " << bits);
      BOOST_TEST_INFO_SCOPE("count " << count);
      std::vector<uint8_t> codes(count), back(count);
      for (size_t i = 0; i < count; ++i)
        codes[i] = static_cast<uint8_t>(static_cast<int>(i * 37 % (1U << bits)) - (1 << (bits - 1)));
      std::vector<uint32_t> words(packed_words(count, bits));
      pack_integers(codes, bits, words);
      unpack_integers(words, bits, back);
      BOOST_TEST((back == codes));
    }
  std::vector<uint32_t> word(1);
  pack_integers(std::vector<uint8_t>{0xF8, 0, 7, 0xFF}, 4, word);  // the low four bits of each value: -8, 0, 7, -1
  BOOST_TEST(word[0] == 0x7F80U);
  std::vector<uint8_t> bytes(2), halves(4);
  pack_halves(std::vector<uint8_t>{1, 2, 15, 8}, bytes);
  BOOST_TEST((bytes == std::vector<uint8_t>{0x21, 0x8F}));
  unpack_halves(bytes, halves);
  BOOST_TEST((halves == std::vector<uint8_t>{1, 2, 15, 8}));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
