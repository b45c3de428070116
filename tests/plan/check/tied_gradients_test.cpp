// Checks that the checker refuses sums of tied gradients that run too early, twice, never or without their summands, on
// one rank or on all ranks alike.
#include <map>
#include <string>

#include "plan/check/check.hpp"
#include "tests/plan/cuts.hpp"
#include "tests/plan/tied_saboteur.hpp"

BOOST_AUTO_TEST_SUITE(tied_gradients)

using namespace troupe::plan;

namespace {

std::string verdict_of(const std::vector<rank_plan>& plans) {
  shared_plans all;
  for (const auto& p : plans) all.push_back(std::make_shared<const rank_plan>(p));
  const auto proved = troupe::plan::check(all);
  return proved ? "passed" : proved.error().text;
}

/// Changes the plans of all ranks and expects the checker's error to contain `what`.
void refused(const shared_table& table, const plan_options& o, auto change, const std::string& what) {
  std::vector<rank_plan> plans;
  for (const auto& p : plans_of(table, o)) plans.push_back(*p);
  BOOST_TEST_REQUIRE(verdict_of(plans) == "passed");
  for (auto& p : plans) change(p);
  for (auto& p : plans) p.layout = plans.front().layout;  // all ranks share the changed layout
  const std::string text = verdict_of(plans);
  BOOST_TEST(text.find(what) != std::string::npos, text << " does not say: " << what);
}

instruction& first_of(rank_plan& p, kind k) {
  const auto found = std::ranges::find(p.instructions, k, &instruction::kind);
  BOOST_REQUIRE(found != p.instructions.end());
  return *found;
}

/// Appends a copy of `x` to its lane.
void append_again(rank_plan& p, const instruction& x) {
  instruction again = x;
  again.id = static_cast<uint32_t>(p.instructions.size());
  if (again.lane == lane::fabric) again.sequence = p.num_collectives[again.communicator]++;
  p.lanes[static_cast<size_t>(again.lane)].push_back(again.id);
  p.instructions.push_back(std::move(again));
}

job_layout& changeable(rank_plan& p) {
  const auto own = std::make_shared<job_layout>(*p.layout);
  p.layout = own;
  return *own;
}

const std::map<std::string, bool (tied_saboteur::*)()> breakages = {
    {"exchange early", &tied_saboteur::exchange_early}, {"exchange twice", &tied_saboteur::exchange_twice},
    {"exchange never", &tied_saboteur::exchange_never}, {"add early", &tied_saboteur::add_early},
    {"add twice", &tied_saboteur::add_twice},           {"add never", &tied_saboteur::add_never},
};

struct sample {
  shared_table table = copied(gpt_table(4, 32, 100, true));
  plan_options options = staged_per_use(*table, "1f1b", {2, 1, 4}, 2, 1);
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_sum_twice_is_found) {
  const sample s;
  refused(
      s.table, s.options, [](rank_plan& p) { append_again(p, first_of(p, kind::tied_sum)); }, "repeats tied_sum");
  refused(
      s.table, s.options, [](rank_plan& p) { append_again(p, first_of(p, kind::tie)); }, "repeats tie");
}

BOOST_AUTO_TEST_CASE(a_sum_before_the_reductions_is_found) {
  const sample s;
  for (const bool uncut : {false, true}) {
    const auto o = uncut ? per_use(small_options(2, 3, 2)) : s.options;
    refused(
        s.table, o,
        [](rank_plan& p) {
          first_of(p, kind::tied_sum).after.clear();
          if (std::ranges::count(p.instructions, kind::tie, &instruction::kind) > 0)
            first_of(p, kind::tie).after.clear();
        },
        "does not wait for reduce");
  }
}

BOOST_AUTO_TEST_CASE(a_sum_before_its_exchange_is_found) {
  const sample s;
  refused(
      s.table, s.options,
      [](rank_plan& p) {
        auto& sum = first_of(p, kind::tied_sum);
        std::erase(sum.after, first_of(p, kind::tie).id);
      },
      "does not wait for tie");
}

BOOST_AUTO_TEST_CASE(an_exchange_of_another_slot_is_found) {
  const sample s;
  refused(
      s.table, s.options, [](rank_plan& p) { first_of(p, kind::tie).slots.moved = 0; }, "tie");
}

BOOST_AUTO_TEST_CASE(a_copy_in_the_vote_is_found) {
  const sample s;
  const auto copy = static_cast<uint32_t>(s.table->parameters.size() - 1);
  refused(
      s.table, per_use(small_options(2, 1)),
      [copy](rank_plan& p) {
        auto norm = first_of(p, kind::norm);
        norm.subject = p.layout->bucket_of[copy];
        append_again(p, norm);
      },
      "counts the gradient of a tied parameter in the vote a second time");
}

BOOST_AUTO_TEST_CASE(a_norm_before_the_sum_is_found) {
  const sample s;
  refused(
      s.table, per_use(small_options(2, 1)),
      [](rank_plan& p) {
        // The change swaps the sum with the norm instruction that reads it.
        auto& sum = first_of(p, kind::tied_sum);
        const auto norm = std::ranges::find_if(p.instructions, [&](const instruction& x) {
          return x.kind == kind::norm && x.subject == p.layout->bucket_of[0];
        });
        BOOST_REQUIRE(norm != p.instructions.end());
        std::swap(static_cast<operation&>(sum), static_cast<operation&>(*norm));
      },
      "does not wait for tied_sum");
}

BOOST_AUTO_TEST_CASE(ties_that_leave_a_use_out_are_found) {
  const sample s;
  refused(
      s.table, s.options, [](rank_plan& p) { changeable(p).ties[0].parameters.pop_back(); },
      "has no original or no copy");
  refused(
      s.table, s.options, [](rank_plan& p) { changeable(p).tie_of[0] = none; }, "is not once among the uses of p0");
  refused(
      s.table, s.options, [](rank_plan& p) { changeable(p).exchanges[0].gives[0] = none; },
      "goes 0 times to pipeline rank 1");
  const auto four = four_uses();
  refused(
      four, per_use(small_options(2, 1)),
      [](rank_plan& p) {
        auto& uses = changeable(p).ties[0].parameters;
        std::swap(uses[1], uses[2]);
      },
      "not in the order of units");
}

// The partition treats the copy of a tied parameter like any other parameter: the rank with the fewest elements so far
// receives the uneven block.
BOOST_AUTO_TEST_CASE(a_copy_that_is_cut_otherwise_is_found) {
  refused(
      four_uses(), per_use(small_options(2, 1)),
      [](rank_plan& p) {
        auto other = p.table();
        for (auto& x : other.parameters) x.copy_of.reset();
        changeable(p).partition = make_partition(other, 2, uneven_blocks::to_least);
      },
      "is not cut as its original is");
}

BOOST_AUTO_TEST_CASE(every_break_of_a_sum_of_tied_gradients_is_caught_in_any_cut) {
  std::map<std::string, uint32_t> caught, harmless;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 random(seed);
    const auto [table, options] = random_cut(random, mode::train);
    const auto whole = plans_of(table, options);
    for (const auto& [name, change] : breakages) BOOST_TEST_CONTEXT("seed " << seed << ", " << name) {
        plans broken;
        for (const auto& p : whole) broken.push_back(*p);
        tied_saboteur breaks(broken, random);
        if (!(breaks.*change)()) continue;
        const auto now = shared(broken);
        const bool excused = breaks.excused(now);
        const auto proved = troupe::plan::check(now);
        BOOST_TEST(proved.has_value() == excused, (proved ? "passed" : proved.error().text));
        ++(excused ? harmless : caught)[name];
      }
  }
  for (const auto& [name, change] : breakages) {
    BOOST_TEST_MESSAGE(name << ": " << caught[name] << " caught, " << harmless[name] << " harmless");
    BOOST_TEST(caught[name] >= 50U, name << ": " << caught[name]);
  }
}

BOOST_AUTO_TEST_SUITE_END()
