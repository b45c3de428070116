#include "plan/check/happens_before.hpp"

#include "tests/plan/order_oracle.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(happens_before)

using namespace troupe::plan;

namespace {

/// Compares happens_before with the oracle's graph search for many pairs of instructions of any two ranks.
void compare(const shared_plans& plans, branch taken, std::mt19937_64& random) {
  const auto order = troupe::plan::happens_before::build(plans, taken);
  BOOST_REQUIRE(order.has_value());
  const order_oracle oracle(plans, taken);
  uint32_t ordered = 0, asked = 0;
  for (int i = 0; i < 400; ++i) {
    const auto ra = static_cast<uint32_t>(random() % plans.size()), rb = static_cast<uint32_t>(random() % plans.size());
    const auto a = static_cast<uint32_t>(random() % plans[ra]->instructions.size());
    const auto b = static_cast<uint32_t>(random() % plans[rb]->instructions.size());
    if (!runs(plans[ra]->instructions[a], taken) || !runs(plans[rb]->instructions[b], taken)) continue;
    const bool wanted = oracle.before(ra, a, rb, b);
    BOOST_TEST_REQUIRE(order->before(ra, a, rb, b) == wanted,
                       "rank " << ra << " " << plans[ra]->describe(a) << " before rank " << rb << " "
                               << plans[rb]->describe(b) << ": the graph says " << wanted);
    ordered += wanted ? 1 : 0;
    ++asked;
  }
  BOOST_TEST((ordered > 0 && ordered < asked));
}

}  // namespace

BOOST_AUTO_TEST_CASE(it_agrees_with_a_walk_of_the_graph_on_any_plan) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto table = random_table(random);
      auto options = random_options(*table, random);
      if (seed % 3 == 0) put_in_groups(options);
      if (!make_layout(table, options)) continue;
      const auto plans = plans_of(table, options);
      compare(plans, branch::not_skipped, random);
      compare(plans, branch::skipped, random);
    }
  }
}

BOOST_AUTO_TEST_CASE(collectives_start_in_order_but_may_end_in_any) {
  auto options = small_options(2, 0);
  options.gradients.reduce_bucket = 1;
  const auto plans = plans_of(chain_table({4096, 4096}), options);
  const auto order = troupe::plan::happens_before::build(plans, branch::not_skipped);
  BOOST_REQUIRE(order.has_value());
  std::vector<uint32_t> reduces;
  uint32_t first_backward = none;
  for (const auto& x : plans[0]->instructions) {
    if (x.kind == kind::reduce) reduces.push_back(x.id);
    if (x.kind == kind::backward && first_backward == none) first_backward = x.id;
  }
  BOOST_REQUIRE(reduces.size() == 2);
  BOOST_TEST(!order->before(0, reduces[0], 0, reduces[1]));
  BOOST_TEST(order->before(0, first_backward, 0, reduces[1]));
  BOOST_TEST(order->before(1, first_backward, 0, reduces[0]), "a collective waits for what its members wait for");
}

BOOST_AUTO_TEST_CASE(a_cycle_is_named) {
  const auto plans = plans_of(chain_table({4096, 4096}), small_options(2, 3));
  auto broken = std::make_shared<rank_plan>(*plans[1]);
  uint32_t gather = none;
  for (const auto& x : broken->instructions)
    if (x.kind == kind::gather && gather == none) gather = x.id;
  const uint32_t forward = broken->lanes[static_cast<size_t>(lane::compute)].front();
  broken->instructions[gather].after.push_back(forward);
  const shared_plans both{plans[0], broken};
  const auto order = troupe::plan::happens_before::build(both, branch::not_skipped);
  BOOST_REQUIRE(!order.has_value());
  BOOST_TEST(order.error().text.find("gather unit 0") != std::string::npos);
  BOOST_TEST(order.error().text.find("rank 1 forward unit 0") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
