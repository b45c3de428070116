// Tests the names of a checkpoint printed as a file for `--map`, and the names that result from using that file.
#include "formats/names/printed_map.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/document/name_map_file.hpp"
#include "formats/names/name_rules.hpp"
#include "tests/formats/tensors.hpp"

BOOST_AUTO_TEST_SUITE(printed_maps)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;

namespace {

using pairs = std::vector<std::pair<std::string, std::string>>;

/// Checks that the printed file maps every name of a pair to the other, and returns the number of rows in the file.
size_t check_leads(const pairs& names) {
  const auto text = printed_map(names);
  const auto lines = check_ok(config::parse_name_map(text, "map"));
  const auto rules = check_ok(formats::name_rules::of(*lines));
  for (const auto& [from, to] : names) BOOST_TEST(rules->find(from).value_or("none") == to, text);
  return lines->lines.size();
}

}  // namespace

BOOST_AUTO_TEST_CASE(layers_that_differ_by_their_number_share_a_row) {
  pairs names{{"wte.weight", "transformer.wte.weight"}};
  for (int i = 0; i < 12; ++i)
    for (const std::string part : {"attn.bias", "mlp.weight"})
      names.emplace_back(fmt::format("h.{}.{}", i, part), fmt::format("transformer.h.{}.{}", i, part));
  BOOST_TEST(check_leads(names) == 3U);
  BOOST_TEST(check_leads({{"e.1.f.2", "x.1.y.2"}, {"e.3.f.4", "x.3.y.4"}}) == 1U);
}

BOOST_AUTO_TEST_CASE(layers_whose_numbers_change_have_rows_of_their_own) {
  BOOST_TEST(check_leads({{"3.bias", "h.2.bias"}, {"4.bias", "h.3.bias"}}) == 2U);
  BOOST_TEST(check_leads({{"h.0.w", "a.0.w"}, {"h.1.w", "b.1.w"}}) == 2U);
  BOOST_TEST(check_leads({{"h.0.w", "a.0.w"}, {"h.1.w", "one"}}) == 2U);
  BOOST_TEST(check_leads({{"a.1.b.2", "a.2.b.1"}}) == 1U);
}

BOOST_AUTO_TEST_CASE(names_with_a_meaning_in_patterns_or_in_yaml_stay_text) {
  BOOST_TEST(check_leads({{"a.b", "a.b"},
                          {"a+b", "plus"},
                          {"it's", "it's"},
                          {"back\\slash", "back\\1slash"},
                          {"# not: a comment", "x: y"},
                          {"(a|b)*", "[c]"},
                          {"\xC3\xA9.0.w", "\xC3\xA9.0.w"}}) == 7U);
  BOOST_TEST(printed_map({{"line\nbreak", "x"}}) == "names:\n");
}

BOOST_AUTO_TEST_SUITE_END()
