#include "kernels/base/cast.hpp"

#include <limits>

#include "tests/kernels/samples.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(cast)

namespace {
/// Rounds a double to a floating-point grid of `digits` bits by a slow, independent method: to nearest, ties to even,
/// with the C library.
double nearest_on_grid(double x, int digits, int least_exponent) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), least_exponent);
  const double unit = std::ldexp(1.0, exponent - digits + 1);
  return std::nearbyint(x / unit) * unit;
}
}  // namespace

BOOST_AUTO_TEST_CASE(all_65536_bfloat16_and_half_values_survive_a_round_trip) {
  for (uint32_t u = 0; u < 65536; ++u) {
    const bf16 b{static_cast<uint16_t>(u)};
    const f16 h{static_cast<uint16_t>(u)};
    if (!std::isnan(float_from_bf16(b))) BOOST_REQUIRE_EQUAL(bf16_from_float(float_from_bf16(b)).bits, u);
    if (!std::isnan(float_from_f16(h))) BOOST_REQUIRE_EQUAL(f16_from_float(float_from_f16(h)).bits, u);
  }
}

BOOST_AUTO_TEST_CASE(known_values_have_known_bits) {
  const float infinity = std::numeric_limits<float>::infinity();
  BOOST_CHECK_EQUAL(bf16_from_float(1.0F).bits, 0x3F80);
  // Half way between two bf16 numbers, rounded to the even one.
  BOOST_CHECK_EQUAL(bf16_from_float(1.00390625F).bits, 0x3F80);
  // Half way between two bf16 numbers, rounded to the even one.
  BOOST_CHECK_EQUAL(bf16_from_float(1.01171875F).bits, 0x3F82);
  BOOST_CHECK_EQUAL(bf16_from_float(std::numeric_limits<float>::max()).bits, 0x7F80);
  BOOST_CHECK_EQUAL(f16_from_float(1.0F).bits, 0x3C00);
  BOOST_CHECK_EQUAL(f16_from_float(65504.0F).bits, 0x7BFF);
  BOOST_CHECK_EQUAL(f16_from_float(65519.0F).bits, 0x7BFF);
  BOOST_CHECK_EQUAL(f16_from_float(65520.0F).bits, 0x7C00);
  BOOST_CHECK_EQUAL(f16_from_float(-infinity).bits, 0xFC00);
  BOOST_CHECK_EQUAL(f16_from_float(0x1p-24F).bits, 0x0001);
  BOOST_CHECK_EQUAL(f16_from_float(0x1p-25F).bits, 0x0000);
  BOOST_CHECK_EQUAL(f16_from_float(-0x1.8p-25F).bits, 0x8001);
}

BOOST_AUTO_TEST_CASE(rounding_agrees_with_arithmetic_on_the_grid) {
  for (const float x : awkward_floats(20000, 7)) {
    BOOST_TEST_INFO_SCOPE("x " << x);
    const auto b = static_cast<double>(float_from_bf16(bf16_from_float(x)));
    BOOST_REQUIRE_EQUAL(b, nearest_on_grid(static_cast<double>(x), 8, -126));
    const auto h = static_cast<double>(float_from_f16(f16_from_float(x)));
    const double wanted = nearest_on_grid(static_cast<double>(x), 11, -14);
    BOOST_REQUIRE_EQUAL(h, std::abs(wanted) > 65504 ? std::copysign(INFINITY, wanted) : wanted);
  }
}

BOOST_AUTO_TEST_CASE(a_double_is_rounded_once_not_by_way_of_float) {
  // The number is just above half way between two bf16 neighbours: rounding to fp32 first would move it to half way.
  const double x = 1.0 + 0x1p-8 + 0x1p-40;
  BOOST_CHECK_EQUAL(narrow<bf16>(x).bits, 0x3F81);
  BOOST_CHECK_EQUAL(narrow<bf16>(-x).bits, 0xBF81);
  BOOST_CHECK_EQUAL(narrow<f16>(1.0 + 0x1p-11 + 0x1p-40).bits, 0x3C01);
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 20000; ++i) {
    const double y = std::ldexp(normal(random), static_cast<int>(random() % 30) - 20);
    BOOST_REQUIRE_EQUAL(static_cast<double>(widen(narrow<bf16>(y))), nearest_on_grid(y, 8, -126));
    BOOST_REQUIRE_EQUAL(static_cast<double>(widen(narrow<f16>(y))), nearest_on_grid(y, 11, -14));
  }
}

BOOST_AUTO_TEST_CASE(every_pair_of_types_and_every_target_gives_the_scalar_bits) {
  for_each_simd_target([] {
    for (const auto from : float_dtypes) {
      for (const auto to : float_dtypes) {
        for (const uint64_t count : edge_counts()) {
          const auto in = awkward_bytes(from, count, count + 1);
          std::vector<std::byte> got(count * core::size_of(to));
          auto wanted = got;
          kernels::cast(in.data(), from, got.data(), to, count);
          cast_reference(in.data(), from, wanted.data(), to, count);
          TROUPE_CHECK_SAME_BITS(got, wanted);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(the_first_finite_value_that_becomes_infinite_is_told_wherever_it_stands) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  struct bound {
    core::dtype to;
    float held, lost;
  };
  for_each_simd_target([] {
    for (const auto& [to, held, lost] :
         {bound{core::dtype::f16, 65519, 65520}, bound{core::dtype::bf16, 0x1.FEFFFEp127F, 0x1.FFp127F}}) {
      for (const uint64_t count : edge_counts()) {
        BOOST_TEST_INFO_SCOPE("count " << count);
        std::vector<float> in(count, held);
        std::vector<std::byte> out(2 * count);
        const auto* const bytes = reinterpret_cast<const std::byte*>(in.data());
        if (count > 2) in[0] = infinity, in[1] = -infinity, in[2] = std::nanf("");
        BOOST_REQUIRE(!kernels::cast(bytes, core::dtype::f32, out.data(), to, count));
        for (const uint64_t at : {uint64_t{0}, count / 2, count - 1}) {
          BOOST_TEST_INFO_SCOPE("at " << at);
          if (count == 0) continue;
          in[at] = -lost;
          // A second value out of range: the cast must report the first one.
          in[count - 1] = in[count - 1] == -lost ? -lost : lost;
          const auto found = kernels::cast(bytes, core::dtype::f32, out.data(), to, count);
          const auto wanted = cast_reference(bytes, core::dtype::f32, out.data(), to, count);
          BOOST_REQUIRE(found && wanted);
          BOOST_REQUIRE_EQUAL(found->element, at);
          BOOST_REQUIRE_EQUAL(found->value, static_cast<double>(-lost));
          BOOST_REQUIRE_EQUAL(wanted->element, at);
          BOOST_REQUIRE_EQUAL(wanted->value, static_cast<double>(-lost));
          in[at] = in[count - 1] = held;
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_value_that_is_lost_in_place_is_told_as_it_was) {
  for_each_simd_target([] {
    std::vector<bf16> values(37, bf16_from_float(1));
    values[20] = bf16_from_float(70000);
    auto* const bytes = reinterpret_cast<std::byte*>(values.data());
    const auto lost = kernels::cast(bytes, core::dtype::bf16, bytes, core::dtype::f16, values.size());
    BOOST_REQUIRE(lost);
    BOOST_REQUIRE_EQUAL(lost->element, 20U);
    BOOST_REQUIRE_EQUAL(lost->value, static_cast<double>(float_from_bf16(bf16_from_float(70000))));
  });
}

BOOST_AUTO_TEST_CASE(elements_at_any_alignment_give_the_same_bits) {
  for_each_simd_target([] {
    for (const auto from : float_dtypes)
      for (const auto to : float_dtypes) {
        constexpr uint64_t count = 67;
        const auto in = awkward_bytes(from, count, 5);
        std::vector<std::byte> wanted(count * core::size_of(to)), shifted(in.size() + 1), got(wanted.size() + 1);
        kernels::cast(in.data(), from, wanted.data(), to, count);
        std::copy(in.begin(), in.end(), shifted.begin() + 1);
        kernels::cast(shifted.data() + 1, from, got.data() + 1, to, count);
        got.erase(got.begin());
        TROUPE_CHECK_SAME_BITS(got, wanted);
      }
  });
}

BOOST_AUTO_TEST_CASE(infinities_and_nan_pass_through_every_target) {
  for_each_simd_target([] {
    std::vector<float> in;
    for (const uint32_t bits : {0x7F800000U, 0xFF800000U, 0x7FC00000U, 0xFFC00001U, 0x7F800001U, 0x7FFFFFFFU,
                                0xFFFFFFFFU, 0x7F7FFFFFU, 0x477FFFFFU, 0x47800000U, 0x387FFFFFU, 0x00000001U}) {
      for (int copies = 0; copies < 17; ++copies) in.push_back(std::bit_cast<float>(bits));
    }
    for (const auto to : {core::dtype::bf16, core::dtype::f16}) {
      std::vector<uint16_t> got(in.size());
      auto wanted = got;
      const auto* source = reinterpret_cast<const std::byte*>(in.data());
      kernels::cast(source, core::dtype::f32, reinterpret_cast<std::byte*>(got.data()), to, in.size());
      cast_reference(source, core::dtype::f32, reinterpret_cast<std::byte*>(wanted.data()), to, in.size());
      TROUPE_CHECK_SAME_BITS(got, wanted);
    }
  });
}

BOOST_AUTO_TEST_CASE(every_half_pattern_widens_to_the_scalar_bits_on_every_target) {
  std::vector<uint16_t> in(65536);
  for (uint32_t u = 0; u < 65536; ++u) in[u] = static_cast<uint16_t>(u);
  for_each_simd_target([&] {
    for (const auto from : {core::dtype::bf16, core::dtype::f16}) {
      std::vector<uint32_t> got(in.size());
      auto wanted = got;
      const auto* source = reinterpret_cast<const std::byte*>(in.data());
      kernels::cast(source, from, reinterpret_cast<std::byte*>(got.data()), core::dtype::f32, in.size());
      cast_reference(source, from, reinterpret_cast<std::byte*>(wanted.data()), core::dtype::f32, in.size());
      TROUPE_CHECK_SAME_BITS(got, wanted);
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
