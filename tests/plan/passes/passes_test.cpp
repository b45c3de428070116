// Tests the table of optimisation passes: the order that follows from their contracts, and the addition of a new pass.
#include "plan/passes/pass.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/check/check.hpp"
#include "plan/generate/explain.hpp"
#include "tests/check_ok.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(passes)

using namespace troupe::plan;
using troupe::tests::check_error;
using troupe::tests::check_failed;

namespace {

// The pass that these tests add: moves each gather to one use earlier.
std::string gather_sooner(draft& d, const rank_plan&) {
  uint32_t moved = 0;
  handle before = none;  // the last computation before the use that the gather is moved to
  for (size_t i = 1; i < d.marks.size(); ++i) {
    for (handle x = d.next(d.marks[i - 1].ends), next; x != d.marks[i].computes; x = next) {
      next = d.next(x);
      if (d.is_mark(x) || d.at(x).kind != kind::gather) continue;
      d.move_before(x, d.marks[i - 1].computes);
      d.depend_on_nothing(x);
      d.depend(x, before);
      ++moved;
    }
    for (handle x = d.marks[i - 1].computes; x != d.marks[i - 1].ends; x = d.next(x))
      if (!d.is_mark(x) && lane_of(d.at(x).kind) == lane::compute) before = x;
  }
  return fmt::format("{} gathers one use sooner", moved);
}

// A pass with an error: forwards wait neither for their parameters nor for the tokens.
std::string wait_for_nothing(draft& d, const rank_plan&) {
  for (handle x = d.begin; x != none; x = d.next(x))
    if (!d.is_mark(x) && d.at(x).kind == kind::forward) d.depend_on_nothing(x);
  return "in a hurry";
}

std::string nothing(draft&, const rank_plan&) { return {}; }

pass_order beside_ours(std::span<const pass> own) {
  pass_order out;
  // The tested passes come first in the list, so that only their contracts determine their order.
  for (const pass& x : own) out.push_back(&x);
  for (const pass& x : all_passes()) out.push_back(&x);
  return out;
}

std::vector<std::string> names(const pass_order& passes) {
  const auto order = in_order(passes);
  BOOST_REQUIRE_MESSAGE(order.has_value(), (order ? "" : order.error().text));
  std::vector<std::string> out;
  for (const pass* x : *order) out.push_back(x->name);
  return out;
}

bool comes_before(const std::vector<std::string>& all, const std::string& a, const std::string& b) {
  return std::ranges::find(all, a) < std::ranges::find(all, b);
}

shared_plans plans_by(const pass& own, const shared_table& model, plan_options o) {
  o.passes = {std::make_shared<const pass>(own)};
  return plans_of(model, o);
}

std::string refusal_of(const std::vector<pass>& own) {
  pass_order all = beside_ours(own);
  const auto order = in_order(all);
  return order ? "" : order.error().text;
}

/// Returns the error of plan generation with pass `own`, or an empty text if it succeeds.
std::string failure_of(const pass& own) {
  auto o = small_options(1, 3);
  o.passes = {std::make_shared<const pass>(own)};
  const auto made = generate(layout_of(chain_table({4096}), o), 0);
  return made ? "" : made.error().text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_pass_runs_where_its_contract_puts_it_and_the_checker_proves_the_result) {
  const pass sooner{"sooner", {.needs = {fact::gathers_placed}, .provides = {}, .keeps = all_facts}, gather_sooner};
  const auto order = names(beside_ours({&sooner, 1}));
  BOOST_TEST(order.size() == all_passes().size() + 1);
  BOOST_TEST(comes_before(order, "prefetch", "sooner"));
  for (const bool tied : {false, true})
    for (uint32_t ranks = 1; ranks <= 3; ++ranks)
      for (const uint32_t accumulation : {1U, 2U})
        for (const bool speculate : {false, true}) {
          BOOST_TEST_INFO_SCOPE("accumulation " << accumulation);
          BOOST_TEST_INFO_SCOPE("ranks " << ranks);
          BOOST_TEST_INFO_SCOPE("speculate " << speculate);
          BOOST_TEST_INFO_SCOPE("tied " << tied);
          const auto model = gpt_table(3, 64, 256, tied);
          auto o = small_options(ranks, 3, accumulation);
          o.gathering.prefetch_bucket = 0;
          o.updates.speculate = speculate;
          const auto ahead = plans_by(sooner, model, o), plain = plans_of(model, o);
          const auto proved = troupe::plan::check(ahead);
          BOOST_TEST(proved.has_value(), (proved ? "" : proved.error().text));
          BOOST_TEST(ahead[0]->instructions.size() == plain[0]->instructions.size());
          BOOST_TEST(ahead[0]->peak_live_elements > plain[0]->peak_live_elements);
        }
}

BOOST_AUTO_TEST_CASE(a_pass_that_takes_a_fact_away_runs_behind_all_that_need_it) {
  const pass own{"sooner",
                 {.needs = {fact::gathers_placed}, .provides = {}, .keeps = all_facts.without({fact::gathers_placed})},
                 gather_sooner};
  const auto order = names(beside_ours({&own, 1}));
  for (const char* who : {"prefetch", "speculation", "slices from files"})
    BOOST_TEST(comes_before(order, who, "sooner"), who);
}

BOOST_AUTO_TEST_CASE(the_result_of_a_wrong_pass_is_refused) {
  const pass hurry{"hurry", {.needs = {fact::gathers_placed}, .provides = {}, .keeps = all_facts}, wait_for_nothing};
  check_failed(troupe::plan::check(plans_by(hurry, gpt_table(1, 64, 256, false), small_options(2, 3))),
               "forward unit 0 (instruction 3) does not wait for ");
}

BOOST_AUTO_TEST_CASE(contracts_that_contradict_each_other_are_named) {
  const std::vector<pass> round = {
      {"a", {.needs = {fact::gathers_placed}, .provides = {fact::updates_placed}, .keeps = all_facts}, nothing},
      {"b", {.needs = {fact::updates_placed}, .provides = {fact::gathers_placed}, .keeps = all_facts}, nothing}};
  check_error(in_order({round.data(), round.data() + 1}), "passes wait for each other: a, b");
  check_error(in_order({round.data()}), "pass a needs that gathers are placed, which no pass provides");
}

BOOST_AUTO_TEST_CASE(passes_that_conflict_or_share_a_name_are_refused) {
  const contract any{.needs = {}, .provides = {}, .keeps = all_facts};
  const contract alone{.needs = {}, .provides = {}, .keeps = all_facts, .conflicts = {"undo"}};
  BOOST_TEST(refusal_of({{"mine", alone, nothing}}) == "passes mine and undo conflict");
  BOOST_TEST(refusal_of({{"mine", any, nothing}, {"mine", any, nothing}}) == "two passes are named mine");
  BOOST_TEST(refusal_of({{"prefetch", any, nothing}}) == "two passes are named prefetch");
  BOOST_TEST(refusal_of({{"mine", any, nothing}, {"theirs", any, nothing}}).empty());
}

BOOST_AUTO_TEST_CASE(a_pass_that_throws_or_does_not_end_refuses_the_plan) {
  const contract any{.needs = {}, .provides = {}, .keeps = all_facts};
  BOOST_TEST(failure_of({"mine", any, [](draft&, const rank_plan&) -> std::string {
                           throw std::runtime_error("no idea what to do");
                         }}) == "pass mine: no idea what to do");
  BOOST_TEST(failure_of({"mine", any, [](draft& d, const rank_plan&) -> std::string {
                           for (handle x = d.first();; x = d.next(x) == none ? d.first() : d.next(x)) (void)x;
                         }}) == "pass mine: it follows the order of instructions in a circle: end at plan::none");
}

BOOST_AUTO_TEST_CASE(the_table_of_all_passes_is_already_in_order) {
  const auto order = names(beside_ours({}));
  for (size_t i = 0; i < order.size(); ++i) BOOST_TEST(order[i] == all_passes()[i].name);
}

BOOST_AUTO_TEST_CASE(every_pass_says_what_it_did_and_why) {
  auto o = small_options(2, 3, 2);
  o.gathering.prefetch_bucket = 100'000;
  o.gathering.max_reuse_distance = 20'000;
  const auto made = explain(layout_of(gpt_table(2, 64, 256, false), o), 0);
  BOOST_REQUIRE(made.has_value());
  BOOST_TEST(made->accounts.size() == 1 + all_passes().size());
  uint64_t left = 0;
  for (const auto& x : made->accounts) {
    left += x.changes.added - x.changes.removed;
    const bool idle = x.changes.added + x.changes.moved + x.changes.removed == 0;
    BOOST_TEST(idle == x.why.empty(), x.name << ": " << x.why);
  }
  BOOST_TEST(left == made->plan->instructions.size());
  const auto text = accounts_as_table(made->accounts);
  BOOST_TEST(text.starts_with("pass                   added  moved  removed  why\nwrite "), text);
  BOOST_TEST(text.find("gathers ahead of their use: ") != std::string::npos, text);
}

BOOST_AUTO_TEST_SUITE_END()
