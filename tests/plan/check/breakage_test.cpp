// Breaks valid plans at one random position: the checker must find every break. If a change may be harmless, the test
// decides on an explicit graph whether it is, and then expects the plan to pass. Half of the breaks are on one rank;
// half are the same on all ranks, so that no rank disagrees with another.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "plan/check/check.hpp"
#include "tests/plan/exchange_samples.hpp"
#include "tests/plan/saboteur.hpp"
#include "tests/plan/taught_samples.hpp"

BOOST_AUTO_TEST_SUITE(breakage)

using namespace troupe::plan;

namespace {

struct breakage_kind {
  bool (saboteur::*change)();
  bool on_one_rank = false;  ///< true: the change is an error only because another rank's plan differs
};
const std::map<std::string, breakage_kind> all_breakages = {
    {"drop a dependency", {&saboteur::drop_dependency}},
    {"redirect a dependency", {&saboteur::redirect_dependency}},
    {"wait in a circle", {&saboteur::wait_in_a_circle}},
    {"drop an instruction", {&saboteur::drop_instruction}},
    {"drop a release", {&saboteur::drop_release}},
    {"drop a norm", {&saboteur::drop_norm}},
    {"drop what an update needs", {&saboteur::drop_what_an_update_needs}},
    {"change states", {&saboteur::change_states}},
    {"change moments", {&saboteur::change_moments}},
    {"swap collectives", {&saboteur::swap_collectives}},
    {"exchange collectives", {&saboteur::exchange_collectives, true}},
    {"change a collective", {&saboteur::change_collective, true}},
    {"shift a buffer", {&saboteur::shift_buffer}},
    {"shorten a life", {&saboteur::shorten_life}},
    {"change a buffer", {&saboteur::change_buffer}},
    {"change what a buffer is", {&saboteur::change_what_a_buffer_is}},
    {"add a buffer for nobody", {&saboteur::add_a_buffer_for_nobody}},
    {"change where a bucket lies", {&saboteur::change_where_a_bucket_lies}},
    {"change what is done", {&saboteur::change_what_is_done}},
    {"change a subject", {&saboteur::change_subject}},
    {"change a set", {&saboteur::change_set}},
    {"change a layout", {&saboteur::change_layout}},
    {"change an update's piece", {&saboteur::change_piece}},
    {"drop an update's piece", {&saboteur::drop_piece}},
    {"cut elsewhere", {&saboteur::cut_elsewhere}},
    {"stand twice in a lane", {&saboteur::stand_twice_in_a_lane}},
    {"reorder a lane", {&saboteur::reorder_lane}},
    {"change lanes", {&saboteur::change_lane}},
    {"compute in another order", {&saboteur::compute_in_another_order}},
    {"change a guard", {&saboteur::change_guard}},
    {"repeat an instruction", {&saboteur::repeat_instruction}},
    {"change what is saved", {&saboteur::change_what_is_saved}},
    {"change a size", {&saboteur::change_size}},
};

/// The result of one change: whether the plan changed, whether the change is harmless, and whether the checker accepted
/// it.
struct trial {
  bool changed = false, harmless = true;
  std::string text;
  bool passed = false;
};

trial attempt(const shared_plans& whole, const breakage_kind& kind, std::mt19937_64& random) {
  trial out;
  const bool alike = !kind.on_one_rank && random() % 2 == 0;
  if (kind.on_one_rank && whole.size() < 2) return out;
  const size_t chosen = random() % whole.size();
  plans broken;
  for (const auto& p : whole) broken.push_back(*p);
  std::vector<saboteur> saboteurs;
  saboteurs.reserve(broken.size());  // the excuses hold pointers to the elements, so the vector must not reallocate
  auto layout = broken.front().layout;
  for (size_t r = 0; r < broken.size(); ++r) {
    if (!alike && r != chosen) continue;
    saboteurs.emplace_back(broken[r], random);
    if ((saboteurs.back().*kind.change)()) {
      out.changed = true;
      layout = broken[r].layout;
    } else {
      saboteurs.pop_back();
    }
  }
  if (alike)
    for (auto& p : broken) p.layout = layout;  // all ranks share the changed layout
  random.discard(64);
  if (!out.changed) return out;
  const auto now = shared(broken);
  out.harmless = std::all_of(saboteurs.begin(), saboteurs.end(), [&](const auto& s) { return s.excused(now); });
  const auto proved = troupe::plan::check(now);
  out.passed = proved.has_value();
  out.text = proved ? "passed" : proved.error().text;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_break_is_caught_and_harmless_changes_pass) {
  std::map<std::string, uint32_t> caught, passed;
  const char* more = std::getenv("TROUPE_SEEDS");
  const uint64_t seeds = more == nullptr ? 600 : std::strtoull(more, nullptr, 10);
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    std::mt19937_64 random(seed);
    const auto table = random_table(random);
    auto options = random_options(*table, random);
    if (seed % 4 == 3) put_in_groups(options);
    if (!make_layout(table, options)) continue;
    const auto whole = plans_of(table, options);
    for (const auto& [name, kind] : all_breakages) BOOST_TEST_CONTEXT("seed " << seed << ", " << name) {
        const trial t = attempt(whole, kind, random);
        if (!t.changed) continue;
        BOOST_TEST(t.passed == t.harmless, "stage " << options.stage << ", mode " << static_cast<int>(options.mode)
                                                    << ", ranks " << options.ranks() << ", accumulation "
                                                    << options.accumulation << ": " << t.text);
        ++(t.harmless ? passed : caught)[name];
      }
  }
  for (const auto& [name, kind] : all_breakages) BOOST_TEST(caught[name] >= 50U, name << ": " << caught[name]);
  BOOST_TEST(passed["drop a dependency"] >= 50U);
}

BOOST_AUTO_TEST_CASE(every_break_of_a_step_that_updates_before_its_vote_is_caught) {
  const std::map<std::string, breakage_kind> of_speculation = {
      {"change an undo copy", {&saboteur::change_an_undo_copy}},
      {"drop an undo", {&saboteur::drop_an_undo}},
      {"drop a redo", {&saboteur::drop_a_redo}},
      {"redo before undo", {&saboteur::redo_before_undo}},
      {"take the factor of another branch", {&saboteur::take_the_factor_of_another_branch}},
      {"act in other branches", {&saboteur::act_in_other_branches}},
  };
  auto breakages = all_breakages;
  breakages.insert(of_speculation.begin(), of_speculation.end());
  std::map<std::string, uint32_t> caught;
  for (uint64_t seed = 1000; seed < 1300; ++seed) {
    std::mt19937_64 random(seed);
    const auto table = random_table(random);
    auto options = random_options(*table, random);
    options.mode = mode::train;
    options.updates.speculate = true;
    // Sub-groups whose states are in a swap file are updated before the gradient-norm vote only if no update is ever
    // undone.
    const bool undoes = !options.tiers.swaps();
    options.updates.may_skip = undoes && seed % 4 != 0;
    options.updates.may_clip = undoes && seed % 4 != 1;
    if (!make_layout(table, options)) continue;
    const auto whole = plans_of(table, options);
    for (const auto& [name, kind] : breakages) BOOST_TEST_CONTEXT("seed " << seed << ", " << name) {
        const trial t = attempt(whole, kind, random);
        if (!t.changed) continue;
        BOOST_TEST(t.passed == t.harmless, "stage " << options.stage << ", ranks " << options.ranks()
                                                    << ", accumulation " << options.accumulation << ": " << t.text);
        if (!t.harmless) ++caught[name];
      }
  }
  for (const auto& [name, kind] : of_speculation) BOOST_TEST(caught[name] >= 50U, name << ": " << caught[name]);
}

BOOST_AUTO_TEST_CASE(every_break_of_a_step_that_asks_a_teacher_is_caught) {
  std::map<std::string, uint32_t> caught;
  for (uint64_t seed = 3000; seed < 3200; ++seed) {
    std::mt19937_64 random(seed);
    auto [table, options] = seed % 2 == 0 ? std::pair(random_taught_table(random), plan_options())
                                          : random_taught_cut(random, seed % 8 == 1 ? mode::evaluate : mode::train);
    if (seed % 2 == 0) options = random_options(*table, random);
    options.updates.speculate = options.updates.may_clip = seed % 3 == 0 && !options.tiers.swaps();
    if (!make_layout(table, options)) continue;
    const auto whole = plans_of(table, options);
    const auto sound = troupe::plan::check(whole);
    BOOST_TEST_REQUIRE(sound.has_value(), "seed " << seed << ": " << sound.error().text);
    for (const auto& [name, kind] : all_breakages) BOOST_TEST_CONTEXT("seed " << seed << ", " << name) {
        if (kind.on_one_rank && seed % 2 == 1 && options.data() < 2) continue;  // no other rank's plan differs
        const trial t = attempt(whole, kind, random);
        if (!t.changed) continue;
        BOOST_TEST(t.passed == t.harmless, "stage " << options.stage << ", mode " << static_cast<int>(options.mode)
                                                    << ", ranks " << options.ranks() << ": " << t.text);
        if (!t.harmless) ++caught[name];
      }
  }
  BOOST_TEST(caught["drop an instruction"] >= 50U);
  BOOST_TEST(caught["change a subject"] >= 50U);
}

// Breaks of transfers between stages are tested in cuts_test.cpp, breaks of exchanges between the ranks of a group in
// shared_cuts_test.cpp.
BOOST_AUTO_TEST_CASE(every_break_of_one_rank_of_a_pipeline_or_a_group_is_caught) {
  for (uint64_t seed = 2000; seed < 2200; ++seed) {
    std::mt19937_64 random(seed);
    const auto of = seed % 8 == 0 ? mode::evaluate : mode::train;
    const auto [table, options] = (seed < 2100 ? random_cut : random_shared_cut)(random, of);
    const auto whole = plans_of(table, options);
    for (const auto& [name, kind] : all_breakages) BOOST_TEST_CONTEXT("seed " << seed << ", " << name) {
        if (kind.on_one_rank && options.data() < 2) continue;  // no other rank's plan differs
        const trial t = attempt(whole, kind, random);
        if (t.changed)
          BOOST_TEST(t.passed == t.harmless, options.mesh.text() << ", stage " << options.stage << ": " << t.text);
      }
  }
}

BOOST_AUTO_TEST_SUITE_END()
