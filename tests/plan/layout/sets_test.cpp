#include "plan/layout/sets.hpp"

#include "plan/layout/buckets.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(sets)

using namespace troupe::plan;

namespace {

using groups = std::vector<std::vector<uint64_t>>;

/// Returns, for each set, the sizes of its parameters.
groups sizes_of(const rank_plan& p, const std::vector<parameter_set>& all) {
  groups out;
  for (const auto& s : all) {
    out.emplace_back();
    for (const auto& x : s.parameters) out.back().push_back(p.table().parameters[x.parameter].numel());
  }
  return out;
}

std::shared_ptr<const rank_plan> plan_of(const shared_table& table, const plan_options& o) {
  return plans_of(table, o)[0];
}

/// Returns the gradient buckets of a model whose gradients are computed in the given order, as lists of sizes.
groups buckets_of(std::vector<uint64_t> in_order_of_backward, uint64_t limit) {
  std::vector<uint64_t> numels(in_order_of_backward.rbegin(), in_order_of_backward.rend());
  auto o = small_options(1, 0);
  o.gradients.reduce_bucket = limit;
  const auto p = plan_of(chain_table(numels), o);
  return sizes_of(*p, p->layout->buckets);
}

groups sub_groups_of(const std::vector<uint64_t>& numels, uint64_t limit) {
  auto o = small_options(1, 2);
  o.updates.sub_group = limit;
  const auto p = plan_of(chain_table(numels), o);
  groups out;
  for (const auto& g : p->sub_groups) {
    out.emplace_back();
    for (const auto& x : g.pieces) out.back().push_back(x.range.count);
  }
  return out;
}

std::vector<bool> persistent(const std::vector<uint64_t>& numels, uint64_t each, uint64_t all) {
  auto o = small_options(1, 3);
  o.gathering.persistence_threshold = each;
  o.gathering.model_persistence_threshold = all;
  return plan_of(chain_table(numels), o)->layout->persistent;
}

bool equal(const groups& a, const groups& b) { return a == b; }
bool equal(const std::vector<bool>& a, const std::vector<bool>& b) { return a == b; }

}  // namespace

// DeepSpeed flushes a bucket before it adds a gradient that would exceed the limit.
BOOST_AUTO_TEST_CASE(a_bucket_may_reach_its_limit_but_not_exceed_it) {
  BOOST_TEST(equal(buckets_of({4, 6, 1}, 10), {{4, 6}, {1}}));
  BOOST_TEST(equal(buckets_of({4, 7, 3}, 10), {{4}, {7, 3}}));
}

BOOST_AUTO_TEST_CASE(a_gradient_larger_than_the_limit_is_alone_in_its_bucket) {
  BOOST_TEST(equal(buckets_of({4, 25, 3, 3}, 10), {{4}, {25}, {3, 3}}));
  BOOST_TEST(equal(buckets_of({25, 25}, 10), {{25}, {25}}));
}

BOOST_AUTO_TEST_CASE(a_parameter_that_two_segments_write_has_a_bucket_of_its_own_where_its_last_gradient_comes) {
  table_writer w;
  const uint32_t shared = w.parameter(100);
  w.unit({{shared, w.parameter(10)}});
  w.unit({{w.parameter(20)}});
  w.unit({{w.parameter(30), shared}});
  const auto p = plan_of(w.done(), small_options(1, 0));
  BOOST_TEST(equal(sizes_of(*p, p->layout->buckets), {{30, 20}, {100}, {10}}));
  const auto writes = contributions(p->table());
  BOOST_REQUIRE(writes[shared].size() == 2);
  BOOST_TEST(writes[shared][0].unit == 2U);
  BOOST_TEST(writes[shared][1].unit == 0U);
}

BOOST_AUTO_TEST_CASE(a_units_bucket_holds_what_the_largest_unit_completes_by_itself) {
  table_writer w;
  const uint32_t shared = w.parameter(9'000'000);
  w.unit({{shared, w.parameter(10)}});
  w.unit({{w.parameter(1'000'000), w.parameter(500'000)}, {w.parameter(600'000)}});
  w.unit({{w.parameter(30), shared}});
  BOOST_TEST(unit_bucket(*w.done()) == 2'100'000U);
  BOOST_TEST(unit_bucket(*chain_table({100, 200})) == unit_bucket_min);
}

BOOST_AUTO_TEST_CASE(a_bucket_that_follows_units_ends_with_its_unit_unless_it_is_small) {
  table_writer w;
  w.unit({{w.parameter(10)}});
  w.unit({{w.parameter(600'000)}, {w.parameter(900'000)}});
  w.unit({{w.parameter(30)}, {w.parameter(700'000)}});
  w.unit({{w.parameter(20)}});
  const auto table = w.done();
  BOOST_TEST(segment_bucket(*table) == unit_bucket_min);
  auto o = small_options(2, 1);
  o.gradients.reduce_bucket = segment_bucket(*table);
  o.gradients.buckets_follow_units = true;
  const auto p = plan_of(table, o);
  BOOST_TEST(equal(sizes_of(*p, p->layout->buckets), {{20, 700'000, 30}, {900'000}, {600'000}, {10}}));
}

BOOST_AUTO_TEST_CASE(a_segments_bucket_holds_what_the_largest_segment_completes_by_itself) {
  table_writer w;
  const uint32_t shared = w.parameter(9'000'000);
  w.unit({{shared, w.parameter(10)}});
  w.unit({{w.parameter(1'000'000), w.parameter(500'000)}, {w.parameter(600'000)}});
  w.unit({{w.parameter(30), shared}});
  BOOST_TEST(segment_bucket(*w.done()) == 1'500'000U);
}

// DeepSpeed closes a sub-group once its sum has reached the limit, so it may exceed the limit by one parameter.
BOOST_AUTO_TEST_CASE(a_sub_group_closes_when_its_sum_reaches_the_limit) {
  BOOST_TEST(equal(sub_groups_of({4, 4, 4, 4}, 8), {{4, 4}, {4, 4}}));
  BOOST_TEST(equal(sub_groups_of({4, 4, 4, 4}, 9), {{4, 4, 4}, {4}}));
  BOOST_TEST(equal(sub_groups_of({4, 4, 4, 4}, 1), {{4}, {4}, {4}, {4}}));
  BOOST_TEST(equal(sub_groups_of({4, 4, 4, 4}, 16), {{4, 4, 4, 4}}));
  BOOST_TEST(equal(sub_groups_of({4, 4, 4, 4}, 1'000'000'000), {{4, 4, 4, 4}}));
}

BOOST_AUTO_TEST_CASE(sub_groups_hold_the_ranks_own_elements_and_at_stage_0_all) {
  for (const uint32_t stage : {0U, 1U, 2U, 3U}) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    const auto plans = plans_of(chain_table({5000, 3000}), small_options(2, stage));
    for (const auto& p : plans) {
      uint64_t n = 0;
      for (const auto& g : p->sub_groups) n += g.elements;
      BOOST_TEST(n == (stage == 0 ? 8000U : p->layout->partition.elements_of(p->rank)));
    }
  }
}

BOOST_AUTO_TEST_CASE(publish_sets_stay_within_the_all_gather_bucket) {
  for (const uint32_t stage : {1U, 2U}) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    auto o = small_options(1, stage);
    o.updates.allgather_bucket = 10;
    const auto p = plan_of(chain_table({4, 6, 25, 3, 8}), o);
    BOOST_TEST(equal(sizes_of(*p, p->layout->publish_sets), {{4, 6}, {25}, {3}, {8}}));
  }
}

BOOST_AUTO_TEST_CASE(only_stages_1_and_2_publish) {
  for (const uint32_t stage : {0U, 3U})
    BOOST_TEST(plan_of(chain_table({4000, 6000}), small_options(2, stage))->layout->publish_sets.empty());
}

// DeepSpeed keeps a parameter of exactly the threshold's size.
BOOST_AUTO_TEST_CASE(the_persistence_threshold_is_inclusive) {
  BOOST_TEST(equal(persistent({100, 101, 99}, 100, 1'000'000), {true, false, true}));
}

BOOST_AUTO_TEST_CASE(a_parameter_beyond_the_models_threshold_is_skipped_and_later_ones_are_still_taken) {
  BOOST_TEST(equal(persistent({100, 250, 200, 50, 1}, 250, 350), {true, true, false, false, false}));
  BOOST_TEST(equal(persistent({100, 300, 260, 150, 1}, 280, 250), {true, false, false, true, false}));
}

BOOST_AUTO_TEST_CASE(nothing_is_persistent_below_stage_3) {
  auto o = small_options(1, 2);
  o.gathering.persistence_threshold = 1'000'000;
  BOOST_TEST(equal(plan_of(chain_table({100, 200}), o)->layout->persistent, {false, false}));
}

BOOST_AUTO_TEST_CASE(gather_sets_hold_the_parameters_of_a_unit_that_are_not_persistent) {
  table_writer w;
  const uint32_t small = w.parameter(10);
  w.unit({{w.parameter(2000), small}});
  w.unit({{w.parameter(3000)}, {w.parameter(20)}});
  auto o = small_options(1, 3);
  o.gathering.persistence_threshold = 20;
  const auto p = plan_of(w.done(), o);
  BOOST_TEST(equal(sizes_of(*p, p->layout->gather_sets), {{2000}, {3000}, {10, 20}}));
}

BOOST_AUTO_TEST_SUITE_END()
