#include "core/byte_stream.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <variant>

BOOST_AUTO_TEST_SUITE(byte_stream)

using namespace troupe::core;

namespace {

enum class colour : uint8_t { red, green };

struct inner {
  std::string name;
  std::vector<bool> flags;
  friend bool operator==(const inner&, const inner&) = default;
};
void fields(auto& f, inner& x) { f(x.name, x.flags); }

struct outer {
  uint32_t count = 0;
  int64_t place = 0;
  double loss = 0;
  colour is = colour::red;
  std::vector<float> values;
  std::vector<inner> parts;
  std::optional<inner> more;
  bool good = false;
};
void fields(auto& f, outer& x) { f(x.count, x.place, x.loss, x.is, x.values, x.parts, x.more, x.good); }

outer filled() {
  outer x;
  x.count = 7;
  x.place = -3;
  x.loss = -std::numeric_limits<double>::infinity();
  x.is = colour::green;
  x.values = {1.5F, -0.0F};
  x.parts = {{"a", {true, false}}, {std::string("\0b", 2), {}}};
  x.more = inner{"c", {true}};
  x.good = true;
  return x;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_structure_comes_back_bit_for_bit) {
  const outer was = filled();
  const std::string bytes = as_bytes(was);
  const auto back = from_bytes<outer>(bytes);
  BOOST_TEST_REQUIRE(back.has_value());
  BOOST_TEST(back->count == 7U);
  BOOST_TEST(back->place == -3);
  BOOST_TEST(back->loss == was.loss);
  BOOST_TEST((back->is == colour::green && back->good));
  BOOST_TEST(back->values == was.values, boost::test_tools::per_element());
  BOOST_TEST(std::signbit(back->values[1]));
  BOOST_TEST((back->parts == was.parts && back->more == was.more));
  BOOST_TEST(as_bytes(*back) == bytes);
}

BOOST_AUTO_TEST_CASE(a_variant_comes_back_as_its_kind_and_an_unknown_kind_is_nothing) {
  using either = std::variant<inner, outer, uint16_t>;
  const auto back = from_bytes<either>(as_bytes(either(filled())));
  BOOST_TEST_REQUIRE((back.has_value() && std::holds_alternative<outer>(*back)));
  BOOST_TEST(as_bytes(std::get<outer>(*back)) == as_bytes(filled()));
  const std::string number = as_bytes(either(uint16_t{513}));
  BOOST_TEST(number == "\x02\x01\x02");
  BOOST_TEST(std::get<uint16_t>(from_bytes<either>(number).value()) == 513);
  for (const char* const bytes : {"", "\x02\x01", "\x02\x01\x02\x03", "\x03\x01\x02"})
    BOOST_TEST_CONTEXT(bytes) BOOST_TEST(!from_bytes<either>(bytes).has_value());
}

BOOST_AUTO_TEST_CASE(bytes_that_end_early_or_late_are_nothing) {
  const std::string bytes = as_bytes(filled());
  for (size_t n = 0; n < bytes.size(); ++n) BOOST_TEST(!from_bytes<outer>(bytes.substr(0, n)).has_value());
  BOOST_TEST(!from_bytes<outer>(bytes + "x").has_value());
}

BOOST_AUTO_TEST_CASE(a_count_beyond_the_bytes_allocates_nothing) {
  byte_writer out;
  out(std::numeric_limits<uint64_t>::max());
  const std::string bytes = out.take();
  BOOST_TEST(!from_bytes<std::string>(bytes).has_value());
  BOOST_TEST(!from_bytes<std::vector<double>>(bytes).has_value());
  BOOST_TEST(!from_bytes<std::vector<inner>>(bytes).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
