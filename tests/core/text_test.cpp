// Tests numbers and names as text, under any locale of the process, and JSON that must not crash the parser.
#include "core/text.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/json_text.hpp"
#include "tests/comma_locale.hpp"

BOOST_AUTO_TEST_SUITE(text)

using namespace troupe;
using namespace troupe::core;

BOOST_AUTO_TEST_CASE(a_json_string_keeps_utf8_and_replaces_other_bytes) {
  const std::string word = "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x8E\xAD";
  BOOST_TEST(json_string(word) == '"' + word + '"');
  BOOST_TEST(json_string("a\"b\\c\n\x7F") == R"("a\"b\\c\u000a\u007f")");
  for (const std::string bad : {"\xFF", "\xC3", "\xC0\xBC", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80"}) {
    BOOST_TEST_INFO_SCOPE(bad);
    const auto back = nlohmann::json::parse(json_string("a" + bad + "b")).get<std::string>();
    std::string wanted = "a";
    for (size_t i = 0; i < bad.size(); ++i) wanted += "\xEF\xBF\xBD";
    BOOST_TEST(back == wanted + "b");
  }
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const auto back = nlohmann::json::parse(json_string(all)).get<std::string>();
  BOOST_TEST(back.substr(0, 128) == all.substr(0, 128));
  BOOST_TEST(back.size() == 128U + 3 * 128U);
}

BOOST_AUTO_TEST_CASE(foreign_bytes_are_shown_as_one_line_of_utf8) {
  const std::string word = "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x8E\xAD";
  BOOST_TEST(shown(word) == word);
  BOOST_TEST(shown("a\n\x1B[2J\x7F") == "a??[2J?");
  BOOST_TEST(shown("a\xC2\x9B"
                   "2J\xC2\xA0") == "a?2J\xC2\xA0");  // U+009B begins a terminal's command
  for (const std::string bad : {"\xFF", "\xC3", "\xC0\xBC", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80"})
    BOOST_TEST(shown("a" + bad + "b") == "a" + std::string(bad.size(), '?') + "b");
  BOOST_TEST(shown(std::string(120, 'x')) == std::string(120, 'x'));
  BOOST_TEST(shown(std::string(119, 'x') + "\xC3\xBC") == std::string(119, 'x') + "...");
  BOOST_TEST(shown("abcdef", 3) == "abc...");
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  for (size_t begin = 0; begin < all.size(); ++begin) BOOST_TEST(is_utf8(shown(all.substr(begin))));
}

BOOST_AUTO_TEST_CASE(unprintable_characters_are_escapes_and_everything_else_is_itself) {
  const std::string path = "/data/gr\xC3\xBC\xC3\x9F \xE2\x82\xAC\xF0\x9F\x8E\xAD\\x";
  BOOST_TEST(printable_line(path) == path);
  BOOST_TEST(printable_line("a\n\t\r\x1B[2J\x7F") == "a\\n\\t\\r\\x1b[2J\\x7f");
  BOOST_TEST(printable_lines("a\n\tb\r\x1B") == "a\n\tb\\r\\x1b");
  BOOST_TEST(printable_line("\xC2\x9B\u202Egpj.exe\u2028\uFEFF\U000E0041") ==
             "\\u009b\\u202egpj.exe\\u2028\\ufeff\\U000e0041");
  BOOST_TEST(printable_line("a\xFF\xC3") == "a\\xff\\xc3");
  BOOST_TEST(printable_line(std::string("\0b", 2)) == "\\x00b");
  BOOST_TEST(shown("a\u202Eb") == "a?b");
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  BOOST_TEST(is_utf8(printable_lines(all)));
  BOOST_TEST(printable_lines(printable_line(all)) == printable_line(all));
}

BOOST_AUTO_TEST_CASE(bytes_have_three_digits_and_a_unit) {
  BOOST_TEST(human_bytes(0) == "0 B");
  BOOST_TEST(human_bytes(640) == "640 B");
  BOOST_TEST(human_bytes(999) == "999 B");
  BOOST_TEST(human_bytes(1000) == "0.98 KiB");
  BOOST_TEST(human_bytes(1024) == "1.00 KiB");
  BOOST_TEST(human_bytes(1536) == "1.50 KiB");
  BOOST_TEST(human_bytes(10'239) == "10.0 KiB");
  BOOST_TEST(human_bytes(102'400) == "100 KiB");
  BOOST_TEST(human_bytes(1023ULL * 1024) == "1.00 MiB");
  BOOST_TEST(human_bytes(3ULL << 30) == "3.00 GiB");
  BOOST_TEST(human_bytes(UINT64_MAX) == "16.0 EiB");
  BOOST_TEST(human_bytes(1e25) == "8.27 YiB");
}

BOOST_AUTO_TEST_CASE(a_comma_locale_changes_no_number) {
  const tests::comma_locale here;
  char naive[32];
  std::snprintf(naive, sizeof naive, "%.1f", 1.5);
  std::ostringstream stream;
  stream << 1234.5;
  BOOST_TEST(naive == std::string("1,5"));  // the locale applies to printf and to streams
  BOOST_TEST(stream.str() == "1.234,5");
  BOOST_TEST(text_of("%.2f %g %d", 1234.5, 1e-5, 1234567) == "1234.50 1e-05 1234567");
  BOOST_TEST(number_text(1234.5) == "1234.5");
  std::snprintf(naive, sizeof naive, "%.1f", 1.5);
  BOOST_TEST(naive == std::string("1,5"));  // the host's locale is restored
}

BOOST_AUTO_TEST_CASE(a_range_is_named_with_its_last_number) {
  BOOST_TEST(range_text("element", 0, 8192) == "elements 0 to 8191");
  BOOST_TEST(range_text("byte", 4, 1) == "byte 4");
}

BOOST_AUTO_TEST_CASE(a_text_of_any_length_is_whole) {
  const std::string word(3000, 'x');
  BOOST_TEST(text_of("<%s>", word.c_str()) == "<" + word + ">");
  BOOST_TEST(text_of("%s", std::string(511, 'y').c_str()) == std::string(511, 'y'));
  BOOST_TEST(text_of("%s", std::string(512, 'y').c_str()) == std::string(512, 'y'));
  BOOST_TEST(number_text(-std::nan("")) == "nan");
}

BOOST_AUTO_TEST_CASE(json_is_refused_with_its_byte_before_it_can_do_harm) {
  const auto problem = [](const std::string& text, size_t depth = 3) {
    const auto got = parse_json(text, depth);
    return got ? std::string("none") : got.error().why;
  };
  BOOST_TEST(problem("[[[1]]]") == "none");
  BOOST_TEST(problem("[[[[1]]]]") == "its values are nested more than 3 deep at byte 4");
  BOOST_TEST(problem("[{\"a\": [{}]}]") == "its values are nested more than 3 deep at byte 9");
  BOOST_TEST(problem(R"({"[[[[\"[[[[": "{{{{\\"})") == "none");
  BOOST_TEST(problem("[[],[],[[]],[]]") == "none");
  BOOST_TEST(problem(std::string(1'000'000, '[')) == "its values are nested more than 3 deep at byte 4");
  BOOST_TEST(problem("{\"a\": " + std::string(400, '9') + "}") == "a number outside the range of a double at byte 7");
  BOOST_TEST(problem("[1e999]") == "a number outside the range of a double at byte 2");
  BOOST_TEST(problem("[1e-999]") == "none");
  BOOST_TEST(problem("{\"a\": }") == "broken JSON at byte 7 of 7");
  BOOST_TEST(problem("\"\xFF\"") == "broken JSON at byte 2 of 3");
  BOOST_TEST(problem("") == "broken JSON: the text is empty");
  BOOST_TEST(problem("[1, {\"a\": ") == "broken JSON: the text ends after 10 bytes, before its value does");
  BOOST_TEST(problem("{\"a\": \"b") == "broken JSON: the text ends after 8 bytes, before its value does");
}

BOOST_AUTO_TEST_SUITE_END()
