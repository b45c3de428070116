// Tests that text from outside is escaped, and that printed numbers can be read back.
#include "telemetry/text.hpp"

#include <boost/test/unit_test.hpp>
#include <charconv>
#include <cmath>

BOOST_AUTO_TEST_SUITE(text)

using namespace troupe::telemetry;

BOOST_AUTO_TEST_CASE(markup_becomes_text) {
  BOOST_TEST(html_escaped("<script>alert('x') && \"y\"</script>") ==
             "&lt;script&gt;alert(&#39;x&#39;) &amp;&amp; &quot;y&quot;&lt;/script&gt;");
  BOOST_TEST(html_escaped("two\nlines\tand a tab") == "two\nlines\tand a tab");
}

BOOST_AUTO_TEST_CASE(utf8_stays_and_other_bytes_are_replaced) {
  const std::string replacement = "\xEF\xBF\xBD";
  BOOST_TEST(html_escaped("gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x8E\xAD") ==
             "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x8E\xAD");
  for (const std::string bad :
       {"\xFF", "\xC3", "\xC0\xBC", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "\x01", "\x7F"}) {
    const std::string out = html_escaped("a" + bad + "b");
    BOOST_TEST(out.starts_with("a" + replacement), bad);
    BOOST_TEST(out.ends_with("b"), bad);
    BOOST_TEST(out.find(bad) == std::string::npos, bad);
  }
}

BOOST_AUTO_TEST_CASE(numbers_read_back_to_the_same_bits) {
  for (double x : {0.1, 1.0 / 3, 1e-300, -2.5e17, 5e-324}) {
    BOOST_TEST_INFO_SCOPE("x " << x);
    const std::string s = json_number(x);
    double back = 0;
    std::from_chars(s.data(), s.data() + s.size(), back);
    BOOST_TEST(back == x);
  }
  BOOST_TEST(json_number(std::nan("")) == "null");
  BOOST_TEST(json_number(INFINITY) == "null");
}

BOOST_AUTO_TEST_CASE(short_numbers_keep_three_digits) {
  BOOST_TEST(short_number(0) == "0");
  BOOST_TEST(short_number(842496) == "842k");
  BOOST_TEST(short_number(999.7) == "1.00k");
  BOOST_TEST(short_number(999999) == "1.00M");
  BOOST_TEST(short_number(12345678) == "12.3M");
  BOOST_TEST(short_number(0.00012) == "1.20e-04");
  BOOST_TEST(short_number(-1.5) == "-1.500");
  BOOST_TEST(short_number(INFINITY) == "-");
}

BOOST_AUTO_TEST_CASE(durations_are_read_as_clocks) {
  BOOST_TEST(duration_text(4.21) == "4.2 s");
  BOOST_TEST(duration_text(59.99) == "1:00");
  BOOST_TEST(duration_text(3723) == "1:02:03");
  BOOST_TEST(duration_text(std::nan("")) == "0.0 s");
}

BOOST_AUTO_TEST_SUITE_END()
