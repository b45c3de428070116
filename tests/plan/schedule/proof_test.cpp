#include "plan/schedule/proof.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "plan/schedule/transfers.hpp"
#include "tests/plan/schedule/tables.hpp"

BOOST_AUTO_TEST_SUITE(proof)

using namespace troupe::plan;

namespace {

std::string fault_of(const pipeline_table& t) {
  const auto fault = find_fault(t);
  return fault ? fmt::format("rank {}: {}", fault->rank, fault->text) : "";
}

pipeline_table small(bool sends) {
  const auto t = named_table("zb_h1", 2, 1, 2);
  return sends ? with_transfers(t) : t;
}

using type = action_type;

void drop(pipeline_table& t, uint32_t rank, const action& a) { std::erase(t.orders[rank], a); }
void swap(pipeline_table& t, uint32_t rank, const action& a, const action& b) {
  std::iter_swap(std::ranges::find(t.orders[rank], a), std::ranges::find(t.orders[rank], b));
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_action_stands_once) {
  for (const type k : {type::forward, type::backward_input, type::backward_weight}) {
    auto t = small(false);
    drop(t, 1, {k, 1, 1});
    BOOST_TEST(fault_of(t) == "rank 1: " + name_of(action{k, 1, 1}) + " is missing");
    t = small(false);
    t.orders[1].push_back({k, 1, 1});
    BOOST_TEST(fault_of(t) == "rank 1: " + name_of(action{k, 1, 1}) + " occurs twice");
  }
  auto t = small(false);
  t.orders[0].push_back({type::backward, 0, 1});
  BOOST_TEST(fault_of(t) == "rank 0: 0B1 repeats the work of 0I1 on the same micro-batch");
  drop(t, 0, {type::backward_input, 0, 1});
  BOOST_TEST(fault_of(t) == "rank 0: 0B1 repeats the work of 0W1 on the same micro-batch");
}

BOOST_AUTO_TEST_CASE(a_stage_and_a_micro_batch_are_those_of_the_table) {
  auto t = small(false);
  t.orders[1].push_back({type::forward, 0, 0});
  BOOST_TEST(fault_of(t) == "rank 1: 0F0: stage 0 is on rank 0 too");
  t.orders[1].back() = {type::forward, 2, 0};
  BOOST_TEST(fault_of(t) == "rank 1: 2F0: unknown stage, there are 2");
  t.orders[1].back() = {type::forward, 1, 2};
  BOOST_TEST(fault_of(t) == "rank 1: 1F2: unknown micro-batch, there are 2");
}

BOOST_AUTO_TEST_CASE(transfers_are_there_on_both_sides_or_not_at_all) {
  BOOST_TEST(fault_of(small(true)) == "");
  for (const auto& [rank, a] : {std::pair{0U, action{type::send_forward, 0, 1}},
                                {1U, action{type::recv_forward, 1, 0}},
                                {1U, action{type::send_backward, 1, 1}},
                                {0U, action{type::recv_backward, 0, 0}}}) {
    auto t = small(true);
    drop(t, rank, a);
    BOOST_TEST(fault_of(t) == fmt::format("rank {}: {} is missing", rank, name_of(a)));
  }
  auto t = small(true);
  t.orders[1].push_back({type::send_forward, 1, 0});
  BOOST_TEST(fault_of(t) == "rank 1: 1SEND_F0 has no partner on another rank");
  t = named_table("zb_v", 2, 2, 2);
  t.orders[1].push_back({type::send_forward, 1, 0});
  BOOST_TEST(find_fault(t).has_value());
}

BOOST_AUTO_TEST_CASE(what_waits_in_a_circle_is_told_as_one) {
  auto t = small(false);
  swap(t, 1, {type::backward_input, 1, 0}, {type::backward_weight, 1, 0});
  BOOST_TEST(fault_of(t) == "rank 1: deadlock: 1W0 waits for 1I0 of rank 1 after 1W0");
  t = {1, {0, 1}, {{{type::forward, 0, 0}, {type::backward, 0, 0}}, {{type::backward, 1, 0}, {type::forward, 1, 0}}}};
  BOOST_TEST(fault_of(t) == "rank 1: deadlock: 1B0 waits for 1F0 of rank 1 after 1B0");
  // In the 1F1B order that follows, rank 0 runs its backward 0 before its forward 1, but rank 1's backward 0 waits for
  // that forward.
  t = named_table("1f1b", 2, 1, 2);
  swap(t, 0, {type::forward, 0, 1}, {type::backward, 0, 0});
  swap(t, 1, {type::backward, 1, 0}, {type::forward, 1, 1});
  BOOST_TEST(fault_of(t) ==
             "rank 0: deadlock: 0B0 waits for 1B0 of rank 1 after 1F1, which waits for 0F1 of rank 0 after 0B0");
}

BOOST_AUTO_TEST_CASE(the_order_of_micro_batches_is_told_from_another) {
  auto t = named_table("zb_h1", 2, 1, 4);
  BOOST_TEST(!find_reordering(t).has_value());
  swap(t, 0, {type::backward_weight, 0, 2}, {type::backward_weight, 0, 3});
  swap(t, 0, {type::backward_input, 0, 2}, {type::backward_input, 0, 3});
  BOOST_TEST(find_reordering(t)->text == "0I3 leaves the order of micro-batches");
  BOOST_TEST(find_reordering(t)->rank == 0U);
  // A whole backward includes the weight part; micro-batch 1's runs before the weight part of micro-batch 0.
  t = {2,
       {0},
       {{{type::forward, 0, 0},
         {type::forward, 0, 1},
         {type::backward_input, 0, 0},
         {type::backward, 0, 1},
         {type::backward_weight, 0, 0}}}};
  BOOST_TEST(fault_of(t) == "");
  BOOST_TEST(find_reordering(t)->text == "0B1 leaves the order of micro-batches");
}

// Each seed drops an action or swaps two: the change is either harmless or reported by the checker, and an accepted
// schedule never deadlocks.
BOOST_AUTO_TEST_CASE(random_changes_are_caught_or_harmless) {
  uint32_t caught = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto& s = named_schedules()[random() % named_schedules().size()];
      const auto p = static_cast<uint32_t>(2 + random() % 3);
      auto t = *make_table(s, {p, 2, static_cast<uint32_t>(1 + random() % 6)});
      if (random() % 2 == 0) t = with_transfers(t);
      auto& order = t.orders[random() % p];
      const size_t i = random() % order.size();
      const size_t j = random() % order.size();
      const bool lost = random() % 2 == 0;
      if (lost)
        order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
      else
        std::swap(order[i], order[j]);
      const auto fault = find_fault(t);
      if (lost) BOOST_TEST(fault.has_value());
      if (fault) {
        ++caught;
        continue;
      }
      const auto timing = play_table(t, even_costs(t.stages(), 1, 1, 1));
      for (uint32_t r = 0; r < p; ++r) BOOST_TEST(timing.ranks[r].actions.size() == t.orders[r].size());
    }
  BOOST_TEST(caught >= 150U);
}

BOOST_AUTO_TEST_SUITE_END()
