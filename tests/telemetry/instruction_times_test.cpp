// Tests the durations of instructions without waiting, computed from spans in which instructions wait for each other.
#include "telemetry/instruction_times.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/telemetry/spans_of.hpp"

BOOST_AUTO_TEST_SUITE(instruction_times)

using namespace troupe;
using namespace troupe::telemetry;

namespace {

// Returns the spans of `step` with all times multiplied by `factor`.
std::vector<rank_spans> slower(std::vector<rank_spans> step, int64_t factor) {
  for (auto& r : step)
    for (auto& i : r.spans) i = {i.start_ns * factor, i.end_ns * factor};
  return step;
}

const plan::instruction& first_of(const plan::rank_plan& p, plan::kind kind) {
  return *std::ranges::find(p.instructions, kind, &plan::instruction::kind);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_played_step_gives_back_the_prices_that_it_was_played_with) {
  for (const auto& step : {played_gpt(2, 3, 2), played_pipeline(), played_pipeline("interleaved", 2, 2)}) {
    const auto own = own_seconds(step);
    const plan::cost_model costs;
    for (size_t r = 0; r < step.size(); ++r)
      for (const auto& x : step[r].plan->instructions) {
        BOOST_TEST_INFO_SCOPE("r " << r);
        // The duration of a collective is the duration of its slowest member, and may include the collective's
        // latency.
        const double price = plan::predicted_seconds(*step[r].plan, x, costs);
        const double room = x.sequence == plan::none ? 2e-9 : costs.latency_s + 2e-9;
        BOOST_TEST(own[r][x.id] > price - 2e-9, step[r].plan->describe(x.id));
        BOOST_TEST(own[r][x.id] < price + room, step[r].plan->describe(x.id));
      }
  }
}

BOOST_AUTO_TEST_CASE(a_collective_behind_another_one_is_charged_for_its_own_time_alone) {
  auto step = played_gpt(2);
  std::vector<uint32_t> gathers;
  for (const auto& x : step[0].plan->instructions)
    if (x.kind == plan::kind::gather) gathers.push_back(x.id);
  BOOST_TEST_REQUIRE(gathers.size() >= 2U);
  for (auto& r : step)
    for (auto& i : r.spans) i = {};
  for (auto& r : step) {
    r.spans[gathers[0]] = {0, 1'000'000'000};
    r.spans[gathers[1]] = {0, 3'000'000'000};
  }
  const auto own = own_seconds(step);
  BOOST_TEST(own[0][gathers[0]] == 1.0);
  BOOST_TEST(own[1][gathers[1]] == 2.0);
}

BOOST_AUTO_TEST_CASE(a_run_forgets_its_first_steps_once_there_are_later_ones) {
  const auto step = played_pipeline();
  telemetry::instruction_times times;
  times.add(slower(step, 50));
  const double cold = times.step_s();
  times.add(slower(step, 50));
  BOOST_TEST(times.steps() == 1U);
  times.add(step);
  times.add(slower(step, 3));
  BOOST_TEST(times.steps() == 2U);
  BOOST_TEST(std::abs(times.step_s() - 2 * cold / 50) < 1e-8);
  const auto& p = *times.plans()[0];
  const auto& x = first_of(p, plan::kind::forward);
  BOOST_TEST(std::abs(times.seconds(p, x) - 2 * plan::predicted_seconds(p, x, {})) < 1e-8);
}

BOOST_AUTO_TEST_CASE(micro_batches_share_a_mean) {
  auto step = played_pipeline();
  const auto& p = *step[0].plan;
  const auto& x = first_of(p, plan::kind::forward);
  std::vector<uint32_t> same;
  for (const auto& y : p.instructions)
    if (y.kind == x.kind && y.subject == x.subject && y.segment == x.segment) same.push_back(y.id);
  BOOST_TEST(same.size() == 4U);
  telemetry::instruction_times times;
  times.add(step);
  for (uint32_t id : same)
    BOOST_TEST_CONTEXT("id " << id) BOOST_TEST(times.seconds(p, p.instructions[id]) == times.seconds(p, x));
}

BOOST_AUTO_TEST_CASE(skipped_steps_and_steps_that_save_do_not_count) {
  auto o = plan::options_of_pipeline("1f1b", 2);
  o.saving.on = true;
  const auto saving = played(plan::plans_of(plan::gpt_table(4, 64, 256, false), o));
  auto skipped = played_pipeline();
  const auto plain = skipped;
  for (auto& r : skipped) r.skipped = true;
  telemetry::instruction_times times;
  times.add(skipped);
  BOOST_TEST(times.steps() == 0U);
  BOOST_TEST(times.plans().empty());
  times.add(saving);
  BOOST_TEST(times.steps() == 1U);
  times.add(plain);
  times.add(plain);
  times.add(plain);
  times.add(saving);
  BOOST_TEST(times.steps() == 2U);
  BOOST_TEST((times.plans()[0] == plain[0].plan));
}

BOOST_AUTO_TEST_SUITE_END()
