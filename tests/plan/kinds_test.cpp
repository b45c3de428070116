// Tests the table of kinds against sample plans: they have every kind, and every collective moves something. Tests that
// tools can tell kinds apart.
#include <set>
#include <span>
#include <string_view>

#include "plan/kinds.hpp"
#include "plan/layout/pieces.hpp"
#include "tests/plan/compression_samples.hpp"
#include "tests/plan/exchange_samples.hpp"

BOOST_AUTO_TEST_SUITE(kinds)

using namespace troupe::plan;

BOOST_AUTO_TEST_CASE(plans_have_instructions_of_every_kind_and_every_collective_moves_something) {
  std::set<kind> seen, moved;
  for (uint64_t seed = 0; seed < 300; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      auto [table, options] = random_shared_cut(random, mode::train);
      if (seed % 2 == 0) compress_some(*table, random, options);
      options.updates.speculate = options.updates.may_clip = seed % 3 == 0 && !options.tiers.swaps();
      if (!make_layout(table, options)) continue;
      const auto plans = plans_of(table, options);
      const collective_pieces pieces(*plans.front()->layout);
      for (const auto& p : plans)
        for (const auto& x : p->instructions) {
          seen.insert(x.kind);
          const bool is_new = x.lane == lane::fabric && !moved.contains(x.kind);
          if (is_new && !pieces.of(x).empty()) moved.insert(x.kind);
        }
    }
  for (const kind_row& row : std::span(kind_rows).first(num_kinds)) {
    BOOST_TEST(seen.contains(row.kind), row.name);
    BOOST_TEST(moved.contains(row.kind) == (row.lane == lane::fabric), row.name);
  }
}

BOOST_AUTO_TEST_CASE(names_and_colours_of_kinds_are_distinct) {
  std::set<std::string_view> names, light, dark;
  size_t coloured = 0;
  for (const kind_row& row : std::span(kind_rows).first(num_kinds)) {
    names.insert(row.name);
    BOOST_TEST(row.colour.light.empty() == row.colour.dark.empty(), row.name);
    if (row.colour.light.empty()) continue;
    ++coloured;
    light.insert(row.colour.light);
    dark.insert(row.colour.dark);
    for (const std::string_view c : {row.colour.light, row.colour.dark})
      BOOST_TEST((c.size() == 7 && c[0] == '#' && c.find_first_not_of("0123456789abcdef", 1) == c.npos), row.name);
  }
  BOOST_TEST(names.size() == num_kinds);
  BOOST_TEST(light.size() == coloured);
  BOOST_TEST(dark.size() == coloured);
}

BOOST_AUTO_TEST_CASE(a_value_that_is_no_kind_has_the_last_row) {
  const auto other = static_cast<kind>(num_kinds + 3);
  BOOST_TEST(name_of(other) == "?");
  BOOST_TEST((row_of(other).group == member_group::nobody));
}

BOOST_AUTO_TEST_SUITE_END()
