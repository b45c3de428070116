// Tests numbers that are read from text: a whole text, the front of a text, and a cell of a table.
#include "core/number.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>

#include "core/cells.hpp"
#include "tests/comma_locale.hpp"

BOOST_AUTO_TEST_SUITE(number)

using namespace troupe;
using core::number_of;
using core::take_number;

BOOST_AUTO_TEST_CASE(a_whole_text_is_one_number) {
  BOOST_TEST((number_of<uint64_t>("0") == 0U));
  BOOST_TEST((number_of<uint64_t>("007") == 7U));
  BOOST_TEST((number_of<int>("-12") == -12));
  BOOST_TEST((number_of<double>("-2.5e3") == -2500));
  BOOST_TEST((number_of<uint64_t>("ff", 16) == 255U));
  BOOST_TEST((number_of<uint64_t>("644", 8) == 420U));
}

BOOST_AUTO_TEST_CASE(a_text_with_anything_else_is_no_number) {
  for (const char* text : {"", " 1", "1 ", "+1", "1,", "1x", "x", "1\n", "-", "0x1", "1_000"}) {
    BOOST_TEST_INFO_SCOPE("'" << text << "'");
    BOOST_TEST(!number_of<uint64_t>(text));
    BOOST_TEST(!number_of<int>(text));
    BOOST_TEST(!number_of<double>(text));
  }
  BOOST_TEST(!number_of<uint64_t>("-1"));
  BOOST_TEST(!number_of<uint64_t>("1.0"));
  BOOST_TEST(!number_of<uint64_t>("8", 8));
  BOOST_TEST(!number_of<uint64_t>(std::string_view()));
}

BOOST_AUTO_TEST_CASE(a_number_that_its_type_cannot_hold_is_none) {
  BOOST_TEST((number_of<uint16_t>("65535") == 65535U));
  BOOST_TEST(!number_of<uint16_t>("65536"));
  BOOST_TEST((number_of<uint64_t>("18446744073709551615") == UINT64_MAX));
  BOOST_TEST(!number_of<uint64_t>("18446744073709551616"));
  BOOST_TEST((number_of<int8_t>("-128") == -128));
  BOOST_TEST(!number_of<int8_t>("-129"));
  BOOST_TEST(!number_of<double>("1e999"));
  BOOST_TEST(std::isinf(number_of<double>("inf").value_or(0)));
}

BOOST_AUTO_TEST_CASE(a_number_at_the_front_is_removed_from_the_text) {
  std::string_view text = "12F-3";
  BOOST_TEST((take_number<uint32_t>(text) == 12U));
  BOOST_TEST(text == "F-3");
  BOOST_TEST(!take_number<uint32_t>(text));
  BOOST_TEST(text == "F-3");
  text.remove_prefix(1);
  BOOST_TEST(!take_number<uint32_t>(text));
  BOOST_TEST((take_number<int>(text) == -3));
  BOOST_TEST(text.empty());
  BOOST_TEST(!take_number<int>(text));
  text = "300.";
  BOOST_TEST(!take_number<uint8_t>(text));
  BOOST_TEST(text == "300.");
}

BOOST_AUTO_TEST_CASE(a_comma_locale_changes_no_number_that_is_read) {
  const tests::comma_locale here;
  BOOST_TEST((number_of<double>("1.5") == 1.5));
  BOOST_TEST(!number_of<double>("1,5"));
}

BOOST_AUTO_TEST_CASE(a_cell_that_is_no_number_leaves_the_field_as_it_was) {
  uint32_t steps = 4;
  BOOST_TEST(!core::read_number("12x", steps));
  BOOST_TEST(steps == 4U);
  BOOST_TEST(core::read_number("12", steps));
  BOOST_TEST(steps == 12U);
}

BOOST_AUTO_TEST_SUITE_END()
