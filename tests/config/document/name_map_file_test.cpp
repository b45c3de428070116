// Tests the format of a `--map` file, and errors with their line numbers.
#include "config/document/name_map_file.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(name_map_file)

using namespace troupe;
using namespace troupe::config;
using tests::scratch_folder;
using troupe::tests::check_failed;

namespace {

void check_refused(const std::string& text, const std::string& why) {
  check_failed(parse_name_map(text, "map"), core::error_kind::bad_input, why);
}

}  // namespace

BOOST_AUTO_TEST_CASE(lines_keep_their_order_their_place_and_their_text) {
  const auto got = parse_name_map("names:\n  (\\d+)\\.x: 'a.\\1'  # a comment\nlayers:\n  0: ''\n  2-13:\n", "map");
  BOOST_TEST_REQUIRE(got.has_value());
  BOOST_TEST(got->where == "map");
  BOOST_TEST_REQUIRE(got->lines.size() == 3U);
  BOOST_TEST(!got->lines[0].is_layer);
  BOOST_TEST(got->lines[0].left == "(\\d+)\\.x");
  BOOST_TEST(got->lines[0].right == "a.\\1");
  BOOST_TEST(got->lines[0].line == 2);
  BOOST_TEST(got->lines[1].is_layer);
  BOOST_TEST(got->lines[1].left == "0");
  BOOST_TEST(got->lines[2].left == "2-13");
  BOOST_TEST(got->lines[2].right == "");
  BOOST_TEST(got->lines[2].line == 5);
  BOOST_TEST(parse_name_map(R"({"names": {"a": "b"}})", "map")->lines[0].right == "b");
}

BOOST_AUTO_TEST_CASE(any_other_file_is_refused_by_its_line) {
  check_refused("", "map: it has no rules under 'layers' or 'names'");
  check_refused("layers: {}\n", "no rules");
  check_refused("a: b\n", "map: line 1: wanted 'layers' or 'names', got 'a'");
  check_refused("layers: [1]\n", "got a list");
  check_refused("layers: 1\n", "got a single value");
  check_refused("- 1\n", "got a list");
  check_refused("names:\n  a: {b: c}\n", "line 2: wanted the mappings 'layers' and 'names' of text to text");
  check_refused("names:\n  a: b\n  a: c\n", "map: line 3: 'a' is given twice, first at line 2");
  check_refused("layers:\n  1: {a\n", "line ");
  std::string many = "names:\n";
  for (size_t i = 0; i <= core::max_name_lines; ++i) many += fmt::format("  a{}: b\n", i);
  check_refused(many, "more than 10000 rules");
  const scratch_folder at;
  at.write("large.yaml", std::string(max_name_map_bytes + 1, ' '));
  BOOST_TEST(!read_name_map(at / "large.yaml").has_value());
  BOOST_TEST(!read_name_map(at / "none.yaml").has_value());
  BOOST_TEST(read_name_map({})->lines.empty());
}

BOOST_AUTO_TEST_SUITE_END()
