// Tests pipeline schedules in which stages process micro-batches out of order: a stage's gradient sums begin with the
// micro-batch that it writes first and end with the one that it writes last, whatever their numbers, and the transfers
// between stages of different orders match.
#include <algorithm>
#include <map>

#include "plan/check/check.hpp"
#include "plan/schedule/proof.hpp"
#include "plan/schedule/text.hpp"
#include "tests/plan/saboteur.hpp"
#include "tests/plan/tied_samples.hpp"

BOOST_AUTO_TEST_SUITE(any_order)

using namespace troupe::plan;

namespace {

/// All stages run backward from the last micro-batch to the first (PyTorch's LoopedBFS).
constexpr auto reversed = "0F0,0F1,0F2,0F3,0B3,0B2,0B1,0B0\n1F0,1F1,1F2,1F3,1B3,1B2,1B1,1B0\n";
/// The forward, input-gradient and weight-gradient parts of a stage each have their own order of micro-batches;
/// micro-batch 3 is the last one in none of them.
constexpr auto split =
    "0F2,0F0,0F3,0F1,0I1,0I3,0W3,0I0,0I2,0W2,0W1,0W0\n"
    "1F3,1F0,1I3,1F1,1I1,1W1,1F2,1W3,1I2,1I0,1W0,1W2\n";
/// Each rank has two stages; only one of the two processes the micro-batches in ascending order.
constexpr auto chunks =
    "0F0,0F1,0F2,0F3,3F0,3F1,3F2,3F3,3B0,3B1,3B2,3B3,0B3,0B1,0B2,0B0\n"
    "1F0,1F1,1F2,1F3,2F0,2F1,2F2,2F3,2B0,2B1,2B2,2B3,1B3,1B1,1B2,1B0\n";

plan_options ordered(const char* schedule, uint32_t units, uint32_t stage, bool micro_first) {
  auto read = read_table(schedule, "own.csv");
  BOOST_REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().text));
  BOOST_REQUIRE(find_reordering(*read).has_value());
  auto o = small_options(2, stage, read->micro_batches);
  o.mesh = {{troupe::core::axis::pipeline, read->ranks()}, {troupe::core::axis::shard, 2}};
  o.gradients.sum_micro_first = micro_first;
  for (uint32_t k = 0; k < read->stages(); ++k) o.pipeline.first_unit.push_back(k * units / read->stages());
  o.pipeline.table = std::move(*read);
  return o;
}

shared_plans proved(const shared_table& table, const plan_options& o) {
  const auto plans = plans_of(table, o);
  const auto verdict = check(plans);
  BOOST_TEST_REQUIRE(verdict.has_value(), (verdict ? "" : verdict.error().text));
  return plans;
}

/// Returns, for each gradient bucket of a rank, the micro-batches of its reductions in the order of the plan.
std::map<uint32_t, std::vector<uint32_t>> reduced(const rank_plan& p) {
  std::map<uint32_t, std::vector<uint32_t>> out;
  for (const uint32_t id : p.lanes[static_cast<size_t>(lane::fabric)])
    if (p.instructions[id].kind == kind::reduce) out[p.instructions[id].subject].push_back(p.instructions[id].micro);
  return out;
}

void check_sums(const rank_plan& p, const std::vector<uint32_t>& wanted) {
  for (const auto& [bucket, micros] : reduced(p))
    BOOST_TEST(micros == (p.options().buckets_stay() ? std::vector{wanted.back()} : wanted),
               "rank " << p.rank << ", bucket " << bucket);
}

/// Applies `change` to every rank's plan and returns the checker's error.
std::string broken(const shared_plans& whole, auto change) {
  plans all;
  for (const auto& p : whole) all.push_back(*p);
  for (auto& p : all) change(p);
  const auto verdict = check(shared(all));
  return verdict ? "passed" : verdict.error().text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(sums_follow_the_stage_at_every_zero_stage_in_both_orders_of_gradients) {
  const auto table = gpt_table(4, 32, 100, false);
  for (uint32_t stage = 0; stage <= 3; ++stage)
    for (const bool micro_first : {false, true})
      for (const bool recompute : {false, true})
        BOOST_TEST_CONTEXT("stage " << stage << ", micro first " << micro_first << ", recompute " << recompute) {
          auto o = ordered(reversed, 6, stage, micro_first);
          o.recompute = recompute;
          for (const auto& p : proved(table, o)) check_sums(*p, {3, 2, 1, 0});
          o = ordered(split, 6, stage, micro_first);
          o.recompute = recompute;
          for (const auto& p : proved(table, o))
            check_sums(*p, p->options().mesh.pipeline_at(p->rank) == 0 ? std::vector<uint32_t>{3, 2, 1, 0}
                                                                       : std::vector<uint32_t>{1, 3, 0, 2});
        }
}

BOOST_AUTO_TEST_CASE(a_schedule_in_order_says_nothing_of_sums) {
  auto o = ordered(reversed, 6, 3, false);
  for (auto& order : o.pipeline.table.orders) std::ranges::reverse(order.begin() + 4, order.end());
  BOOST_TEST(!find_reordering(o.pipeline.table).has_value());
  BOOST_TEST(layout_of(gpt_table(4, 32, 100, false), o)->bucket_order.empty());
}

// Both stages add gradients to the bucket of the tied weight, so its last micro-batch is the last one of the second
// stage.
BOOST_AUTO_TEST_CASE(a_weight_of_two_stages_is_summed_when_both_have_written_it) {
  const auto table = gpt_table(6, 32, 100, true);
  for (uint32_t stage = 0; stage <= 3; ++stage)
    for (const bool micro_first : {false, true}) BOOST_TEST_CONTEXT("stage " << stage << ", " << micro_first) {
        const auto plans = proved(table, ordered(chunks, 8, stage, micro_first));
        const auto& l = *plans[0]->layout;
        const uint32_t tied = l.bucket_of[0], head = l.bucket_of[l.table->units.back().parameters.front()];
        BOOST_TEST(l.bucket_order[tied] == (std::vector<uint32_t>{3, 1, 2, 0}));
        BOOST_TEST(l.bucket_order[head] == (std::vector<uint32_t>{0, 1, 2, 3}));
        BOOST_TEST(reduced(*plans[0])[tied].back() == 0U);
        BOOST_TEST(reduced(*plans[0])[head].back() == 3U);
      }
}

BOOST_AUTO_TEST_CASE(gradients_of_tied_weights_by_use_wait_for_the_last_of_each_stage) {
  const auto table = copied(gpt_table(4, 32, 100, true));
  for (uint32_t stage = 0; stage <= 3; ++stage)
    for (const bool micro_first : {false, true})
      for (const char* schedule : {reversed, split})
        (void)proved(table, per_use(ordered(schedule, 6, stage, micro_first)));
}

BOOST_AUTO_TEST_CASE(what_crosses_comes_in_the_order_of_the_sender) {
  const auto plans = proved(gpt_table(4, 32, 100, false), ordered(split, 6, 3, false));
  const auto order = [&](uint32_t rank, kind k) {
    std::vector<uint32_t> out;
    for (const auto& x : plans[rank]->instructions)
      if (x.kind == k) out.push_back(x.micro);
    return out;
  };
  BOOST_TEST(order(0, kind::send) == (std::vector<uint32_t>{2, 0, 3, 1}));
  BOOST_TEST(order(2, kind::receive) == order(0, kind::send));
  BOOST_TEST(order(2, kind::send) == (std::vector<uint32_t>{3, 1, 2, 0}));
  BOOST_TEST(order(0, kind::receive) == order(2, kind::send));
}

// In the split schedule, stage 0 computes the weight gradients of micro-batch 0 last.
BOOST_AUTO_TEST_CASE(updates_before_the_vote_wait_for_what_their_stage_writes_last) {
  const auto table = gpt_table(6, 32, 100, true);
  for (uint32_t stage = 0; stage <= 3; ++stage)
    for (const bool micro_first : {false, true})
      for (const char* schedule : {reversed, split, chunks}) {
        BOOST_TEST_INFO_SCOPE("micro first " << micro_first);
        BOOST_TEST_INFO_SCOPE("stage " << stage);
        BOOST_TEST_INFO_SCOPE(schedule);
        auto o = per_use(ordered(schedule, 8, stage, micro_first));
        o.updates.speculate = true;
        for (const auto& p : proved(copied(table), o)) {
          BOOST_TEST(std::ranges::any_of(p->instructions, [&](const instruction& x) {
            return x.kind == kind::update && x.guard == guard::always;
          }));
          BOOST_TEST(std::ranges::none_of(p->instructions, [&](const instruction& x) {
            return x.kind == kind::update && x.guard != guard::always && p->speculates(x.subject);
          }));
        }
      }
}

BOOST_AUTO_TEST_CASE(sums_in_files_begin_with_the_first_and_end_with_the_last_of_their_stage) {
  const auto table = copied(gpt_table(4, 32, 100, true));
  for (const char* schedule : {reversed, split}) {
    BOOST_TEST_INFO_SCOPE(schedule);
    auto o = per_use(ordered(schedule, 6, 3, false));
    o.tiers.optimizer = o.tiers.parameters = tier::nvme;
    o.tiers.swap_gradients = true;
    for (const auto& p : proved(table, o))
      for (uint32_t b = 0; b < p->layout->buckets.size(); ++b)
        BOOST_TEST(std::ranges::none_of(p->instructions, [&](const instruction& x) {
          return x.kind == kind::swap_in && x.what == swapped::gradients && x.subject == b &&
                 x.micro == p->layout->first_micro(b);
        }));
  }
}

BOOST_AUTO_TEST_CASE(a_reduction_before_the_last_contribution_of_its_stage_is_refused) {
  const auto table = gpt_table(4, 32, 100, false);
  const auto plans = proved(table, ordered(reversed, 6, 0, true));
  // The change makes the reduction wait for micro-batch 3, the one with the highest number; in the reversed order its
  // backward runs first.
  const auto early = broken(plans, [](rank_plan& p) {
    for (auto& x : p.instructions) {
      if (x.kind != kind::reduce) continue;
      for (uint32_t& on : x.after) {
        const auto& last = p.instructions[on];
        if (last.kind != kind::backward) continue;
        on = std::ranges::find_if(p.instructions, [&](const instruction& y) {
               return y.kind == kind::backward && y.subject == last.subject && y.segment == last.segment;
             })->id;
      }
    }
  });
  BOOST_TEST(has(early, "reduce bucket"), early);
  BOOST_TEST(has(early, "micro 2 (instruction"), early);
  BOOST_TEST(has(early, "which writes to it"), early);
  const auto named = broken(plans, [](rank_plan& p) {
    for (auto& x : p.instructions)
      if (x.kind == kind::reduce) x.micro = 3;
  });
  BOOST_TEST(has(named, "comes before all micro-batches are summed"), named);
}

BOOST_AUTO_TEST_CASE(a_layout_that_says_another_order_of_sums_is_refused) {
  const auto plans = proved(gpt_table(4, 32, 100, false), ordered(reversed, 6, 3, false));
  const auto change = [&](auto f) {
    auto other = std::make_shared<job_layout>(*plans.front()->layout);
    f(other->bucket_order);
    return broken(plans, [&](rank_plan& p) { p.layout = other; });
  };
  const auto swapped_two = change([](auto& orders) { std::swap(orders.front()[0], orders.front()[1]); });
  BOOST_TEST(has(swapped_two, "bucket 0 adds micro-batch 3 elsewhere than where its stages write it"), swapped_two);
  BOOST_TEST(has(change([](auto& orders) { orders.clear(); }), "bucket 0 adds micro-batch 1 elsewhere"));
  BOOST_TEST(has(change([](auto& orders) { orders.back().pop_back(); }), "another number of micro-batches"));
}

BOOST_AUTO_TEST_SUITE_END()
