// Checks that all ranks of a class have equal plans except for the elements that they own, and that checking one plan
// of each class proves as much as checking all ranks' plans.
#include "plan/layout/classes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "plan/check/check.hpp"
#include "plan/check/rules.hpp"
#include "plan/kinds.hpp"
#include "plan/layout/own.hpp"
#include "plan/memory_places.hpp"
#include "tests/check_ok.hpp"
#include "tests/plan/cuts.hpp"

BOOST_AUTO_TEST_SUITE(classes)

using namespace troupe::plan;
using troupe::tests::check_failed;

namespace {

/// Returns all fields of an instruction as text.
std::string printed(const rank_plan& p, const instruction& x) {
  std::string out = fmt::format("{} segment {} bytes {} flops {:f} guard {} slots", p.describe(x.id), x.segment,
                                x.moved_bytes, x.flops, static_cast<int>(x.guard));
  for (const auto slot : all_slots) out.append(" ").append(fmt::to_string(x.slots.*slot));
  out += " after";
  for (uint32_t on : x.after) out.append(" ").append(fmt::to_string(on));
  return out;
}

void look_alike(const rank_plan& a, const rank_plan& b) {
  BOOST_TEST_REQUIRE(a.instructions.size() == b.instructions.size());
  for (size_t i = 0; i < a.instructions.size(); ++i)
    BOOST_TEST(printed(a, a.instructions[i]) == printed(b, b.instructions[i]));
  BOOST_TEST((a.lanes == b.lanes));
  BOOST_TEST(std::equal(a.pool_bytes, a.pool_bytes + num_pools, b.pool_bytes));
  BOOST_TEST_REQUIRE(a.buffers.size() == b.buffers.size());
  for (size_t i = 0; i < a.buffers.size(); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const auto &x = a.buffers[i], &y = b.buffers[i];
    BOOST_TEST((x.pool == y.pool && x.offset == y.offset && x.bytes == y.bytes && x.subject == y.subject &&
                x.first == y.first && x.last == y.last));
  }
  const auto mine = owners_of(a.memory, {}), others = owners_of(b.memory, {});
  for (size_t i = 0; i < mine.size(); ++i)
    BOOST_TEST(mine[i].bytes == others[i].bytes, "" << mine[i].owner << " differ");
}

shared_plans representatives(const std::vector<rank_class>& classes, const shared_plans& all) {
  shared_plans out;
  for (const auto& c : classes) out.push_back(all[c.representative()]);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(plans_of_a_class_are_equal_and_prove_the_same_as_all_plans) {
  uint64_t classes_seen = 0, shared_by_many = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 random(seed);
    const auto table = seed % 2 == 0 ? random_table(random) : gpt_table(2, 64, 512, seed % 4 == 1);
    auto options = random_options(*table, random);
    options.mesh = troupe::core::data_mesh(static_cast<uint32_t>(1 + random() % 6));
    if (seed % 4 >= 2) put_in_groups(options);
    const auto layout = make_layout(table, options);
    if (!layout) continue;
    BOOST_TEST_CONTEXT("seed " << seed << ", stage " << options.stage << ", ranks " << options.ranks()) {
      const auto all = plans_of(*layout);
      const auto found = classes_of(*layout);
      uint64_t ranks = 0;
      for (const auto& c : found) {
        BOOST_TEST(std::is_sorted(c.ranks.begin(), c.ranks.end()));
        for (uint32_t r : c.ranks) look_alike(*all[c.representative()], *all[r]);
        ranks += c.ranks.size();
        shared_by_many += c.ranks.size() > 1 ? 1 : 0;
      }
      BOOST_TEST(ranks == options.ranks());
      classes_seen += found.size();
      const auto each = check(all), by_class = check_classes(found, representatives(found, all));
      BOOST_TEST(each.has_value() == by_class.has_value(), (each ? by_class.error().text : each.error().text));
    }
  }
  BOOST_TEST(classes_seen > 200U);
  BOOST_TEST(shared_by_many > 50U);
}

BOOST_AUTO_TEST_CASE(columns_of_a_pipeline_that_are_alike_prove_the_same_as_all_ranks) {
  uint64_t shared_by_many = 0, columns_that_differ = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto [table, options] = random_cut(random);
    const auto layout = layout_of(table, options);
    BOOST_TEST_CONTEXT("seed " << seed << ", stage " << options.stage << ", " << options.mesh.text()) {
      const auto all = plans_of(layout);
      const auto found = classes_of(layout);
      for (const auto& c : found)
        for (uint32_t r : c.ranks) look_alike(*all[c.representative()], *all[r]);
      shared_by_many += found.front().ranks.size() > 1 ? 1 : 0;
      columns_that_differ += found.size() > options.mesh.degree(troupe::core::axis::pipeline) ? 1 : 0;
      const auto each = check(all), by_class = check_classes(found, representatives(found, all));
      BOOST_TEST(each.has_value());
      BOOST_TEST(by_class.has_value(), (by_class ? "" : by_class.error().text));
    }
  }
  BOOST_TEST(shared_by_many > 5U);
  BOOST_TEST(columns_that_differ > 20U);
}

BOOST_AUTO_TEST_CASE(classes_that_leave_a_rank_out_or_include_one_that_differs_are_refused) {
  const auto layout = layout_of(gpt_table(2, 64, 512, true), small_options(4, 3));
  const auto all = plans_of(layout);
  const auto found = classes_of(layout);
  BOOST_TEST_REQUIRE(check_classes(found, representatives(found, all)).has_value());
  auto missing = found;
  missing.back().ranks.pop_back();
  if (missing.back().ranks.empty()) missing.pop_back();
  BOOST_TEST(!check_classes(missing, representatives(missing, all)).has_value());
  const auto uneven = layout_of(chain_table({1024 * 3, 1024 * 2}), small_options(2, 3));
  const auto two = plans_of(uneven);
  BOOST_TEST_REQUIRE(classes_of(uneven).size() == 2U);
  const std::vector<rank_class> one = {{{0, 1}}};
  check_failed(check_classes(one, shared_plans{two[0]}), "is not of the class that rank 0 represents");
}

BOOST_AUTO_TEST_CASE(a_broken_plan_of_a_class_is_found) {
  const auto layout = layout_of(gpt_table(2, 64, 512, true), small_options(4, 3));
  const auto found = classes_of(layout);
  auto plans = representatives(found, plans_of(layout));
  auto broken = std::make_shared<rank_plan>(*plans.back());
  for (auto& x : broken->instructions)
    if (x.kind == kind::update) x.after.clear();
  plans.back() = broken;
  BOOST_TEST(!check_classes(found, plans).has_value());
}

namespace {

/// Returns a parameter that this rank updates at least partly.
uint32_t own_of(const rank_plan& p) { return p.sub_groups.back().pieces.back().parameter; }

}  // namespace

// The model is so wide that each of 4,096 ranks owns elements of each matrix; each change moves elements of one rank.
BOOST_AUTO_TEST_CASE(one_rank_among_thousands_that_has_its_elements_elsewhere_is_found) {
  constexpr uint32_t ranks = 4096, wrong = 3000;
  auto options = small_options(ranks, 3);
  options.saving.on = true;
  const auto layout = layout_of(gpt_table(1, 1500, 4000, true), options);
  const auto found = classes_of(layout);
  shared_plans plans;
  for (const auto& c : found) plans.push_back(*generate(layout, c.representative()));
  for (const auto& c : found) BOOST_TEST_REQUIRE(c.representative() != wrong);
  const collective_pieces places(*layout);
  const auto verdict = [&](const std::function<void(rank_plan&)>& change) {
    return rules::own_parts(found, plans, places, [&](uint32_t rank) {
      rank_plan out = own_part(layout, rank);
      if (rank == wrong) change(out);
      return out;
    });
  };
  BOOST_TEST_REQUIRE(check_classes(found, plans).has_value());
  BOOST_TEST_REQUIRE(verdict([](rank_plan&) {}).has_value());
  const std::vector<std::pair<std::string, std::function<void(rank_plan&)>>> changes = {
      {"a slice at another place", [](rank_plan& p) { p.offsets.shard.back() += 32; }},
      {"a state at another place", [](rank_plan& p) { p.offsets.state.back() += 32; }},
      {"a moment off its boundary", [](rank_plan& p) { p.moment_offset[1][own_of(p)] += 16; }},
      {"an update of a neighbour's element", [](rank_plan& p) { p.sub_groups.back().pieces.back().range.first += 1; }},
      {"an update of one element less", [](rank_plan& p) { p.sub_groups.back().pieces.back().range.count -= 1; }},
      {"a saved element of a neighbour", [](rank_plan& p) { p.snapshots.back().pieces.back().range.first -= 1; }},
      {"a saved element left out", [](rank_plan& p) { p.snapshots.front().pieces.front().range.count -= 1; }},
      {"a file with a gap", [](rank_plan& p) { p.snapshots.back().file_offset += 4096; }},
  };
  for (const auto& [what, change] : changes) {
    const auto refused = verdict(change);
    BOOST_TEST(!refused.has_value(), what << " is not found");
  }
}

// The check compares a piece that a collective moves with the slice of the rank that owns it only.
BOOST_AUTO_TEST_CASE(a_piece_of_one_rank_among_thousands_from_elsewhere_is_found) {
  constexpr uint32_t ranks = 4096, wrong = 3000;
  const auto layout = layout_of(chain_table({uint64_t{ranks} * 1024, uint64_t{ranks} * 2048}), small_options(ranks, 2));
  const collective_pieces places(*layout);
  for (uint32_t bucket = 0; bucket < layout->buckets.size(); ++bucket) {
    BOOST_TEST_INFO_SCOPE("bucket " << bucket);
    const auto sound = places.reduce(bucket);
    BOOST_TEST_REQUIRE(rules::reduction(*layout, places, bucket, sound).has_value());
    const auto of_wrong = std::ranges::find(sound, wrong, &moved_piece::owner) - sound.begin();
    for (uint64_t moved_piece::*field : {&moved_piece::from, &moved_piece::to, &moved_piece::count})
      for (const uint64_t by : {uint64_t{1}, ~uint64_t{0}}) {
        BOOST_TEST_INFO_SCOPE("by " << by);
        auto changed = sound;
        changed[of_wrong].*field += by;
        BOOST_TEST(!rules::reduction(*layout, places, bucket, changed).has_value());
      }
    auto changed = sound;
    changed[of_wrong].owner -= 1;
    BOOST_TEST(!rules::reduction(*layout, places, bucket, changed).has_value());
  }
  auto votes = places.vote();
  BOOST_TEST_REQUIRE(rules::vote(*layout, votes).has_value());
  std::ranges::find(votes, wrong, &moved_piece::owner)->owner = wrong - 1;
  BOOST_TEST(!rules::vote(*layout, votes).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
