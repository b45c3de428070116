#include "plan/choose/shared_cores.hpp"

#include <algorithm>

#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(shared_cores)

using namespace troupe::plan;

namespace {

/// Returns the core seconds that one step uses, summed over all ranks.
double work_of(rank_plans plans, const cost_model& costs) {
  double out = 0;
  for (const auto& p : plans)
    for (const auto& x : p->instructions)
      if (x.lane != lane::io && x.kind != kind::write && acts(x.guard, branch::not_skipped))
        out += predicted_seconds(*p, x, costs);
  return out;
}

constexpr uint32_t plenty = 4096;

}  // namespace

BOOST_AUTO_TEST_CASE(with_a_core_for_everything_a_step_takes_what_the_cost_model_says) {
  for (uint64_t seed = 0; seed < 60; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto table = random_table(random);
      const auto options = random_options(*table, random);
      if (!make_layout(table, options)) continue;
      const auto plans = plans_of(table, options);
      const auto costs = default_costs(options.types.parameter);
      BOOST_TEST(predict_on_cores(plans, costs, plenty) == predict(plans, costs).step_s,
                 boost::test_tools::tolerance(0.02));
    }
}

BOOST_AUTO_TEST_CASE(cores_are_shared_and_never_idle_while_something_can_run) {
  for (uint64_t seed = 0; seed < 60; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto table = random_table(random);
      const auto options = random_options(*table, random);
      if (!make_layout(table, options)) continue;
      const auto plans = plans_of(table, options);
      const auto costs = default_costs(options.types.parameter);
      const double alone_s = predict_on_cores(plans, costs, plenty), work_s = work_of(plans, costs);
      for (const uint32_t cores : {1U, 2U, 3U}) {
        BOOST_TEST_INFO_SCOPE("cores " << cores);
        const double got = predict_on_cores(plans, costs, cores);
        BOOST_TEST(got >= work_s / cores * (1 - 1e-9));
        BOOST_TEST(got <= (alone_s + work_s / cores) * (1 + 1e-9));
        BOOST_TEST(got == predict_on_cores(plans, costs, cores));
      }
    }
}

BOOST_AUTO_TEST_CASE(ranks_that_do_the_same_take_their_number_of_turns_and_one_plan_stands_for_all_of_them) {
  const auto plans = plans_of(chain_table({10'000, 10'000}), small_options(4, 0));
  const cost_model costs{.flops_per_s = 1e9, .copy_bytes_per_s = 1e12, .latency_s = 0};
  const double on_one = predict_on_cores(plans, costs, 1), on_four = predict_on_cores(plans, costs, 4);
  BOOST_TEST(on_one == 4 * on_four, boost::test_tools::tolerance(0.05));
  BOOST_TEST(predict_on_cores(rank_plans(plans).first(1), costs, 1, {4}) == on_one, boost::test_tools::tolerance(0.02));
}

BOOST_AUTO_TEST_SUITE_END()
