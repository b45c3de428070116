// Tests that normal forms and sets of characters have the Unicode versions of the package `tokenizers`: 9 and 8. The
// wanted values are the package's own, which tests/peer/tokenizers_agree.py compares on texts of all scripts.
#include "data/tokenizers/text/characters.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

BOOST_AUTO_TEST_SUITE(characters)

using namespace troupe::data;

BOOST_AUTO_TEST_CASE(marks_since_unicode_10_are_not_sorted_among_others) {
  const std::string grave_and_arrow = "a\u0300\u20EF", sorted = "a\u20EF\u0300";
  BOOST_TEST(in_normal_form(grave_and_arrow, normal_form::decomposed) == sorted);
  // U+1ACC, of Unicode 14, has the class of the grave accent.
  const std::string later_and_arrow = "a\u1ACC\u20EF";
  for (const auto form : {normal_form::composed, normal_form::decomposed, normal_form::compatible_composed,
                          normal_form::compatible_decomposed})
    BOOST_TEST(in_normal_form(later_and_arrow, form) == later_and_arrow);
}

BOOST_AUTO_TEST_CASE(a_mark_since_unicode_10_divides_the_marks_that_are_sorted_and_composed) {
  BOOST_TEST(in_normal_form("e\u0301\u1ACCe\u0301", normal_form::composed) == "\u00E9\u1ACC\u00E9");
  BOOST_TEST(in_normal_form("e\u1ACC\u0301", normal_form::composed) == "e\u1ACC\u0301");
  BOOST_TEST(in_normal_form("\u1ACC", normal_form::composed) == "\u1ACC");
  BOOST_TEST(in_normal_form("", normal_form::composed).empty());
}

BOOST_AUTO_TEST_CASE(characters_since_unicode_10_have_no_parts) {
  BOOST_TEST(in_normal_form("\u32FE", normal_form::compatible_decomposed) == "\u30F2");
  BOOST_TEST(in_normal_form("\u32FF", normal_form::compatible_decomposed) == "\u32FF");  // the era name of Unicode 12.1
  BOOST_TEST(in_normal_form("\U00011938", normal_form::decomposed) == "\U00011938");
}

BOOST_AUTO_TEST_CASE(current_tables_sort_and_compose_later_characters) {
  // The values are those of Python's unicodedata of Unicode 14.
  BOOST_TEST(in_normal_form("a\u1ACC\u20EF", normal_form::composed, form_tables::current) == "a\u20EF\u1ACC");
  BOOST_TEST(in_normal_form("\U00011935\U00011930", normal_form::composed, form_tables::current) == "\U00011938");
  BOOST_TEST(in_normal_form("\U00011935\U00011930", normal_form::composed) == "\U00011935\U00011930");
}

BOOST_AUTO_TEST_CASE(signs_and_marks_are_those_of_the_packages_tables) {
  // U+2E42 is of Unicode 7, U+2E43 of Unicode 9; U+166D was a sign until Unicode 12.
  BOOST_TEST((punctuation().has('$') && punctuation().has(0x2E42) && punctuation().has(0x166D)));
  BOOST_TEST((!punctuation().has(0x2E43) && !punctuation().has(0x061D)));
  BOOST_TEST((nonspacing_marks().has(0x0301) && nonspacing_marks().has(0x1734)));
  BOOST_TEST((!nonspacing_marks().has(0x1E00D) && !nonspacing_marks().has(0x08D4) && !nonspacing_marks().has(0x1885)));
  BOOST_TEST((all_marks().has(0x08D4) && all_marks().has(0x1CF2) && !all_marks().has(0x1AC8)));
  BOOST_TEST((unseen_characters().has(0xAD) && unseen_characters().has(0xE000) && !unseen_characters().has(0x08E2)));
}

BOOST_AUTO_TEST_SUITE_END()
