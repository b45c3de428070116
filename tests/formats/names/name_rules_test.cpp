// Tests the effect of each rule in a file for `--map`. The file's syntax is tested in
// tests/config/document/name_map_file_test.cpp.
#include "formats/names/name_rules.hpp"

#include <boost/test/unit_test.hpp>

#include "config/document/name_map_file.hpp"
#include "tests/formats/tensors.hpp"

BOOST_AUTO_TEST_SUITE(name_rules)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;

namespace {

core::result<formats::name_rules> rules_of(const std::string& text) {
  const auto lines = config::parse_name_map(text, "map");
  return lines ? formats::name_rules::of(*lines) : core::result<formats::name_rules>(core::fail(lines.error()));
}

std::string name_by(const std::string& text, const std::string& name) {
  const auto rules = check_ok(rules_of(text));
  return rules->find(name).value_or("none");
}

void check_refused(const std::string& text, const std::string& why) {
  check_failed(rules_of(text), core::error_kind::bad_input, why);
}

}  // namespace

BOOST_AUTO_TEST_CASE(layers_get_prefixes_and_names_go_before_them) {
  const std::string text = R"(
layers:
  0: ''
  1: transformer.wpe   # a dot is added
  2-13: transformer.h.{layer-2}.
  20-21: x{layer}y{  # no rule yet
)";
  check_refused(text, "map: line 6: wanted a prefix with {layer}");
  const std::string good = R"(
layers:
  0: ''
  1: transformer.wpe
  2-13: transformer.h.{layer-2}.
  20-21: 'later.{layer+1}.inner.'
  30: 'own.{layer}'
names:
  tied_modules\.embed\.(.*): transformer.wte.\1
  (\d+)\.attn\.bias: unused.\1
  '5\.mlp\.(up|down)\.(.*)': 'transformer.h.3.\2.\1'
)";
  BOOST_TEST(name_by(good, "0.transformer.wte.weight") == "transformer.wte.weight");
  BOOST_TEST(name_by(good, "1.weight") == "transformer.wpe.weight");
  BOOST_TEST(name_by(good, "2.ln_1.weight") == "transformer.h.0.ln_1.weight");
  BOOST_TEST(name_by(good, "13.ln_1.weight") == "transformer.h.11.ln_1.weight");
  BOOST_TEST(name_by(good, "14.ln_1.weight") == "none");
  BOOST_TEST(name_by(good, "21.a") == "later.22.inner.a");
  BOOST_TEST(name_by(good, "30.a") == "own.30.a");
  BOOST_TEST(name_by(good, "tied_modules.embed.weight") == "transformer.wte.weight");
  BOOST_TEST(name_by(good, "7.attn.bias") == "unused.7");
  BOOST_TEST(name_by(good, "5.mlp.up.weight") == "transformer.h.3.weight.up");
  BOOST_TEST(name_by(good, "5.mlp.up") == "transformer.h.3.mlp.up");  // a pattern must match the whole name
  BOOST_TEST(name_by(good, "model.weight") == "none");
  BOOST_TEST(name_by(R"x({"names": {"a\\.(\\w+)": "b.\\1"}})x", "a.x") == "b.x");
}

BOOST_AUTO_TEST_CASE(rules_are_inverted_if_they_give_one_name) {
  const auto rules = rules_of(R"(
layers:
  0: ''
  1: h.1
  2-13: h.{layer}.inner
names:
  tied_modules\.embed\.(.*): wte.\1
  '(up|down)\.(\d+)\.x': '\2.y-\1'
  lost\..*: gone
  twice\.(a): b.\1.\1
)");
  check_ok(rules);
  for (const std::string name : {"tied_modules.embed.weight", "0.a.b", "1.x", "5.mlp.bias", "down.12.x"}) {
    BOOST_TEST_INFO_SCOPE(name);
    const auto there = rules->find(name);
    BOOST_TEST_REQUIRE(there.has_value(), name);
    BOOST_TEST(rules->find_back(*there).value_or("none") == name);
  }
  BOOST_TEST(rules->find_back("gone").value_or("none") ==
             "0.gone");  // the message names the layer instead of a rule that matches many names
  BOOST_TEST(rules->find_back("b.a.a").value_or("none") == "0.b.a.a");
  const auto few = check_ok(rules_of("layers: {3: a}"));
  BOOST_TEST(!few->find_back("b.x").has_value());
  BOOST_TEST(!few->find_back("a.").has_value());
}

BOOST_AUTO_TEST_CASE(anything_but_a_rule_is_refused_by_its_line) {
  check_refused("names:\n  a: b\n  '(': c\n", "map: line 3: wanted an RE2 pattern");
  check_refused("names:\n  '(a)': '\\2'\n", "wanted a name with the groups of '(a)'");
  check_refused("layers:\n  one: a\n", "line 2: wanted a layer's number or a range such as 3-14, got 'one'");
  check_refused("layers:\n  5-3: a\n", "wanted a layer's number or a range");
  check_refused("layers:\n  0-4294967295: a\n", "wanted at most 10000 layers");
  check_refused("layers:\n  1-3: a.{layer-2}\n", "layer 1 has no 'a.{layer-2}'");
  check_refused("layers:\n  1: a.{layer*2}\n", "wanted a prefix with {layer}");
  check_refused("names: &x {a: b}\nlayers: *x\n", "line 1: wanted a layer's number or a range such as 3-14, got 'a'");
}

BOOST_AUTO_TEST_SUITE_END()
