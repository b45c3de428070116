// Tests the statistics of units and their segments: the work comes from the model's table, the time from spans.
#include "telemetry/figures/unit_profile.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/telemetry/spans_of.hpp"

BOOST_AUTO_TEST_SUITE(unit_profile)

using namespace troupe;
using namespace troupe::telemetry;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(times_are_means_per_micro_batch_and_sum_to_the_lanes) {
  const auto step = played_gpt(2, 3, 2);
  profile_sums sums;
  sums.add(step);
  sums.add(step);
  const auto units = sums.units();
  BOOST_TEST_REQUIRE(units.size() == step[0].plan->table().units.size());
  double forward = 0, backward = 0;
  for (const auto& u : units) {
    BOOST_TEST(u.forward_ms() > 0, u.name);
    forward += u.forward_ms();
    backward += u.backward_ms();
  }
  const step_breakdown b = break_down(step, 0);
  BOOST_TEST(std::abs(forward - b.forward_ms / 2) < 1e-3);
  BOOST_TEST(std::abs(backward - b.backward_inner_ms / 2) < 1e-3);
  BOOST_TEST(std::abs(sums.step_ms() - b.step_ms) < 1e-9);
  BOOST_TEST(sums.iteration_ms() > b.forward_ms + b.backward_inner_ms);
}

BOOST_AUTO_TEST_CASE(parameters_and_flops_are_the_tables) {
  const auto step = played_gpt(1);
  const auto& table = step[0].plan->table();
  profile_sums sums;
  sums.add(step);
  const auto units = sums.units();
  for (size_t i = 0; i < units.size(); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    uint64_t numel = 0;
    for (uint32_t p : table.units[i].parameters) numel += table.parameters[p].numel();
    BOOST_TEST(units[i].parameters == numel);
    BOOST_TEST(units[i].forward_flops() == 1e6 * double(table.units[i].segments.size()));
  }
}

BOOST_AUTO_TEST_CASE(recomputation_is_part_of_a_units_backward) {
  auto o = plan::small_options(1, 3);
  o.recompute = true;
  const auto step = played(plan::plans_of(plan::gpt_table(2, 64, 256, false), o));
  profile_sums sums;
  sums.add(step);
  double recompute = 0, backward = 0;
  for (const auto& u : sums.units()) {
    recompute += u.recompute_ms;
    backward += u.backward_ms();
  }
  BOOST_TEST(recompute > 0);
  BOOST_TEST(std::abs(backward - break_down(step, 0).backward_inner_ms) < 1e-3);
}

BOOST_AUTO_TEST_CASE(the_table_has_the_levels_and_modules_that_are_asked_for) {
  const auto step = played_gpt(2);
  profile_sums sums;
  sums.add(step);
  const profiled_run run{2, 4, 1, 1000, 2000};
  flops_table_options o;
  o.step = 7;
  const std::string all = flops_table(sums, run, o);
  for (const char* part : {"flops profiler, step 7, rank 0", "params of model:", "fwd MACs per rank:", "bwd latency:",
                           "samples/second:", "depth 2:", "detailed", "\n  unit 1: ", "\n    segment 0: "})
    BOOST_TEST(has(all, part), part << " is missing in\n" << all);
  o.module_depth = 1;
  o.top_modules = 2;
  const std::string units = flops_table(sums, run, o);
  BOOST_TEST(has(units, "aggregated, top 2 of each depth"));
  BOOST_TEST(!has(units, "depth 2:"));
  BOOST_TEST(!has(units, "segment 0"));
  o.detailed = false;
  BOOST_TEST(!has(flops_table(sums, run, o), "detailed"));
  o.recompute_fwd_factor = 1;
  BOOST_TEST(has(flops_table(sums, run, o), "bwd FLOPS per rank = 3 * fwd flops"));
}

BOOST_AUTO_TEST_SUITE_END()
