// Tests values that exceed the range of a narrower type: they are counted and clamped, but values that were already
// infinite are kept.
#include "formats/source/element_cast.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <vector>

BOOST_AUTO_TEST_SUITE(element_cast)

using namespace troupe;
using namespace troupe::formats;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct narrowed {
  std::vector<float> in;
  std::vector<std::byte> out;
  core::dtype type;
  std::optional<cast_overflow> lost;

  narrowed(std::vector<float> values, core::dtype to) : in(std::move(values)), out(in.size() * 8), type(to) {
    lost = cast_elements(core::dtype::f32, bytes(), to, out.data(), in.size());
  }
  [[nodiscard]] const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(in.data()); }
  [[nodiscard]] std::optional<cast_overflow> first() const { return lost; }
  uint64_t clamp() { return clamp_overflows(core::dtype::f32, bytes(), type, out.data(), in.size()); }
  [[nodiscard]] std::vector<float> back() const {
    std::vector<float> all(in.size());
    cast_elements(type, out.data(), core::dtype::f32, reinterpret_cast<std::byte*>(all.data()), in.size());
    return all;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_value_that_becomes_infinite_is_found_and_infinities_stay) {
  const narrowed half({1, infinity, 65504, 65519, 65520, -1e6F}, core::dtype::f16);
  BOOST_REQUIRE(half.first().has_value());
  BOOST_TEST(half.first()->element == 4U);
  BOOST_TEST(half.first()->value == 65520);
  BOOST_TEST(!narrowed({-infinity, 65519, std::nanf("")}, core::dtype::f16).first().has_value());
  BOOST_TEST(narrowed({3.4e38F}, core::dtype::bf16).first().has_value());
  BOOST_TEST(!narrowed({3.38e38F}, core::dtype::bf16).first().has_value());
  BOOST_TEST(!narrowed({std::numeric_limits<float>::max()}, core::dtype::f64).first().has_value());
  const double wide = 1e39;
  std::vector<std::byte> out(4);
  const auto* const in = reinterpret_cast<const std::byte*>(&wide);
  BOOST_TEST(cast_elements(core::dtype::f64, in, core::dtype::f32, out.data(), 1).has_value());
}

BOOST_AUTO_TEST_CASE(clamped_values_are_the_largest_of_their_sign_and_counted) {
  narrowed half({1, infinity, 70000, -1e6F}, core::dtype::f16);
  BOOST_TEST(half.clamp() == 2U);
  const std::vector<float> wanted{1, infinity, 65504, -65504};
  BOOST_TEST(half.back() == wanted, boost::test_tools::per_element());
  narrowed brain({-3.4e38F}, core::dtype::bf16);
  BOOST_TEST(brain.clamp() == 1U);
  BOOST_TEST(brain.back()[0] == -static_cast<float>(largest_of(core::dtype::bf16)));
}

BOOST_AUTO_TEST_SUITE_END()
