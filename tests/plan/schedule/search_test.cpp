#include "plan/schedule/search.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <random>

#include "plan/schedule/proof.hpp"
#include "tests/plan/schedule/tables.hpp"
#include "tests/processor_time.hpp"

BOOST_AUTO_TEST_SUITE(search)

using namespace troupe::plan;

namespace {

search_request random_request(std::mt19937_64& random, uint32_t p, uint32_t v, uint32_t m) {
  search_request r{p, m, {}, UINT64_MAX, {}};
  const auto draw = [&](uint64_t least, uint64_t most) {
    return static_cast<double>(least + random() % (most - least + 1));
  };
  for (uint32_t s = 0; s < p * v; ++s) {
    const uint64_t whole = 10 + random() % 20;
    r.costs.stages.push_back({draw(5, 20), draw(5, 20), draw(3, 20), whole, 1 + random() % whole});
  }
  if (random() % 2 == 0) r.costs.transfer_s = draw(0, 5);
  return r;
}

uint64_t peak_of(const table_timing& t) {
  uint64_t out = 0;
  for (const auto& r : t.ranks) out = std::max(out, r.peak_bytes);
  return out;
}

uint64_t one_micro_batch(const search_request& r) {
  uint64_t out = 0;
  for (const auto& s : r.costs.stages) out = std::max(out, s.activation_bytes);
  return out;
}

// Returns all orders of forward (F), input-gradient (I) and weight-gradient (W) actions of one stage on one rank that
// fit the memory limit.
std::vector<std::vector<action>> all_orders(const search_request& r, uint32_t stage) {
  std::vector<std::vector<action>> out;
  std::vector<action> order;
  const auto& c = r.costs.stages[stage];
  const std::function<void(uint32_t, uint32_t, uint32_t)> grow = [&](uint32_t f, uint32_t i, uint32_t w) {
    if ((f - i) * c.activation_bytes + (i - w) * c.weight_part_bytes > r.memory_bytes) return;
    if (w == r.micro_batches) return out.push_back(order);
    const auto with = [&](action_type type, uint32_t micro, bool may, std::array<uint32_t, 3> next) {
      if (!may) return;
      order.push_back({type, stage, micro});
      grow(next[0], next[1], next[2]);
      order.pop_back();
    };
    with(action_type::forward, f, f < r.micro_batches, {f + 1, i, w});
    with(action_type::backward_input, i, i < f, {f, i + 1, w});
    with(action_type::backward_weight, w, w < i, {f, i, w + 1});
  };
  grow(0, 0, 0);
  return out;
}

// Returns the time at which the last action ends if the ranks run these orders, or `least` if that time is not lower or
// the ranks wait for each other in a cycle.
double total_of(const search_request& r, const std::vector<const std::vector<action>*>& orders, double least) {
  double forward[3][4], backward[3][4], now[3] = {};
  size_t next[3] = {};
  for (auto& x : forward) std::ranges::fill(x, -1);
  for (auto& x : backward) std::ranges::fill(x, -1);
  for (bool any = true; any;) {
    any = false;
    for (uint32_t s = 0; s < r.ranks; ++s)
      for (; next[s] < orders[s]->size(); ++next[s], any = true) {
        const action& a = (*orders[s])[next[s]];
        const auto& c = r.costs.stages[s];
        double from = 0;
        if (a.type == action_type::forward && s > 0) from = forward[s - 1][a.micro];
        if (a.type == action_type::backward_input && s + 1 < r.ranks) from = backward[s + 1][a.micro];
        if (from < 0) break;
        now[s] = std::max(now[s], from);
        if (a.type == action_type::forward) forward[s][a.micro] = (now[s] += c.forward_s) + r.costs.transfer_s;
        if (a.type == action_type::backward_input)
          backward[s][a.micro] = (now[s] += c.backward_input_s) + r.costs.transfer_s;
        if (a.type == action_type::backward_weight) now[s] += c.backward_weight_s;
        if (now[s] >= least) return least;
      }
  }
  for (uint32_t s = 0; s < r.ranks; ++s)
    if (next[s] < orders[s]->size()) return least;
  return *std::max_element(now, now + r.ranks);
}

double best_of_all(const search_request& r) {
  std::vector<std::vector<std::vector<action>>> choices;
  for (uint32_t s = 0; s < r.ranks; ++s) choices.push_back(all_orders(r, s));
  double least = 1e300;
  std::vector<const std::vector<action>*> orders(r.ranks);
  const std::function<void(uint32_t)> choose = [&](uint32_t s) {
    if (s == r.ranks) return void(least = total_of(r, orders, least));
    for (const auto& order : choices[s]) {
      orders[s] = &order;
      choose(s + 1);
    }
  };
  choose(0);
  return least;
}

void check_found(const search_request& r, const found_schedule& f) {
  const auto fault = find_fault(f.table);
  BOOST_TEST(!fault.has_value(), (fault ? fault->text : ""));
  BOOST_TEST(!find_reordering(f.table).has_value());
  const auto timing = play_table(f.table, r.costs);
  BOOST_TEST(timing.total_s == f.total_s);
  BOOST_TEST(peak_of(timing) == f.peak_bytes);
  BOOST_TEST(f.peak_bytes <= r.memory_bytes);
  BOOST_TEST(f.bound_s <= f.total_s);
}

}  // namespace

BOOST_AUTO_TEST_CASE(within_a_twentieth_of_the_best_of_all_schedules) {
  const std::array<std::pair<uint32_t, uint32_t>, 8> sizes = {
      {{2, 1}, {2, 2}, {2, 3}, {2, 4}, {3, 1}, {3, 2}, {3, 3}, {2, 4}}};
  double worst = 1;
  for (uint64_t seed = 0; seed < 100; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto [p, m] = sizes[seed % sizes.size()];
      auto r = random_request(random, p, 1, m);
      if (random() % 2 == 0) r.memory_bytes = one_micro_batch(r) * (1 + random() % m) + random() % 10;
      const auto found = search_schedule(r);
      BOOST_REQUIRE(found.has_value());
      check_found(r, *found);
      const double best = best_of_all(r);
      BOOST_TEST(found->total_s >= best);
      BOOST_TEST(found->total_s <= 1.05 * best);
      BOOST_TEST(found->bound_s <= best);
      worst = std::max(worst, found->total_s / best);
    }
  BOOST_TEST_MESSAGE("worst against the best of all: " << worst);
}

BOOST_AUTO_TEST_CASE(never_slower_than_a_named_schedule_of_no_more_memory_and_faster_than_1f1b) {
  double ratios = 0;
  uint32_t counted = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto p = static_cast<uint32_t>(2 + random() % 7), m = static_cast<uint32_t>(p + random() % (3 * p + 1));
      const uint32_t v = seed % 5 == 0 ? 2 : 1;
      auto r = random_request(random, p, v, m);
      const auto named = play_table(named_table("1f1b", p, v, m), r.costs);
      // The limit is the peak of 1F1B, one and a half times the peak, or twice the peak.
      r.memory_bytes = peak_of(named) * (2 + random() % 3) / 2;
      const auto found = search_schedule(r);
      BOOST_REQUIRE(found.has_value());
      check_found(r, *found);
      for (const auto& s : named_schedules()) {
        const auto t = make_table(s, {p, v, m});
        if (!t || !trains(*t)) continue;
        const auto timing = play_table(*t, r.costs);
        if (peak_of(timing) <= r.memory_bytes) BOOST_TEST(found->total_s <= timing.total_s, s.name);
      }
      ratios += found->total_s / named.total_s;
      ++counted;
    }
  BOOST_TEST(ratios / counted <= 0.95);
  BOOST_TEST_MESSAGE("mean against 1F1B: " << ratios / counted);
}

BOOST_AUTO_TEST_CASE(eight_ranks_and_thirty_two_micro_batches_take_seconds) {
  for (const uint32_t v : {1U, 2U})
    for (const bool limited : {false, true}) {
      std::mt19937_64 random(v);
      auto r = random_request(random, 8, v, 32);
      if (limited) r.memory_bytes = peak_of(play_table(named_table("1f1b", 8, v, 32), r.costs));
      const double begin = troupe::tests::processor_seconds();
      const auto found = search_schedule(r);
      const double took_s = troupe::tests::processor_seconds() - begin;
      BOOST_TEST_REQUIRE(found.has_value());
      BOOST_TEST(took_s <= 10);
      BOOST_TEST_MESSAGE(v << " chunks" << (limited ? ", limited: " : ": ") << took_s << " s");
    }
}

BOOST_AUTO_TEST_CASE(the_same_request_gives_the_same_table) {
  std::mt19937_64 random(7);
  const auto r = random_request(random, 8, 1, 32);
  const auto a = search_schedule(r), b = search_schedule(r);
  BOOST_TEST((a->table == b->table));
  check_found(r, *a);
}

BOOST_AUTO_TEST_CASE(equal_parts_have_no_idle_where_memory_allows) {
  const search_request r{4, 8, even_costs(4, 1, 1, 1), UINT64_MAX, {}};
  const auto found = search_schedule(r);
  BOOST_TEST(found->total_s == 3 + 8 * 3.0);
  BOOST_TEST(found->bound_s == found->total_s);
}

BOOST_AUTO_TEST_CASE(the_stage_that_bounds_the_step_is_named) {
  search_request r{4, 8, even_costs(4, 1, 1, 1), UINT64_MAX, {}};
  r.costs.stages[2].backward_input_s = 5;
  BOOST_TEST(search_schedule(r)->bound_stage == 2U);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_refused) {
  const auto why = [](const search_request& r) {
    const auto found = search_schedule(r);
    return found ? std::string() : found.error().text;
  };
  BOOST_TEST(why({2, 4, even_costs(3, 1, 1, 1), UINT64_MAX, {}}) ==
             "a schedule requires ranks, micro-batches and the same number of stages on each rank, got 2 ranks, 4 "
             "micro-batches and 3 stages");
  BOOST_TEST(!why({0, 4, even_costs(3, 1, 1, 1), UINT64_MAX, {}}).empty());
  BOOST_TEST(!why({2, 0, even_costs(2, 1, 1, 1), UINT64_MAX, {}}).empty());
  BOOST_TEST(!why({2, 4'000'000'000, even_costs(2, 1, 1, 1), UINT64_MAX, {}}).empty());
  auto costs = even_costs(2, 1, 1, 1);
  costs.stages[1].activation_bytes = 2048;
  BOOST_TEST(why({2, 4, costs, 1024, {}}) ==
             "every schedule exceeds the limit of 1.00 KiB of activations per rank: rank 1 keeps 2.00 KiB for one "
             "micro-batch");
  BOOST_TEST(why({2, 4, costs, 2048, {}}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
