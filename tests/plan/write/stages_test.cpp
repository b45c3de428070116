// Plans of a pipeline: every named schedule with every ZeRO stage is proved, and what crosses between stages is there.
#include <algorithm>

#include "plan/check/check.hpp"
#include "plan/schedule/named.hpp"
#include "plan/schedule/timing.hpp"
#include "tests/plan/samples.hpp"

using namespace troupe::plan;
namespace core = troupe::core;
using core::axis;

namespace {

/// A GPT whose units are cut evenly into as many stages as the schedule has.
plan_options staged(const core::model_table& table, const named_schedule& schedule, pipeline_shape shape, uint32_t data,
                    uint32_t stage) {
  auto o = small_options(data, stage, shape.micro_batches);
  o.mesh = {{axis::pipeline, shape.ranks}, {axis::shard, data}};
  auto made = make_table(schedule, shape);
  BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().text));
  const auto units = static_cast<uint32_t>(table.units.size()), stages = made->stages();
  BOOST_REQUIRE(stages <= units);
  for (uint32_t k = 0; k < stages; ++k) o.pipeline.first_unit.push_back(k * units / stages);
  o.pipeline.table = std::move(*made);
  return o;
}

shared_plans proved(const shared_table& table, const plan_options& o) {
  const auto plans = plans_of(table, o);
  const auto verdict = check(plans);
  BOOST_TEST_REQUIRE(verdict.has_value(), (verdict ? "" : verdict.error().text));
  return plans;
}

size_t count(const rank_plan& p, kind k) {
  return static_cast<size_t>(std::ranges::count(p.instructions, k, &instruction::kind));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stages)

BOOST_AUTO_TEST_CASE(every_named_schedule_is_proved_with_every_zero_stage) {
  const auto table = gpt_table(6, 32, 100, false);
  for (const auto& schedule : named_schedules())
    for (uint32_t ranks = 2; ranks <= 4; ++ranks)
      for (const uint32_t micros : {ranks, 2 * ranks}) {
        const pipeline_shape shape{.ranks = ranks, .chunks = std::max(1U, schedule.chunks), .micro_batches = micros};
        if (!make_table(schedule, shape)) continue;
        for (uint32_t stage = 0; stage <= 3; ++stage)
          BOOST_TEST_CONTEXT(schedule.name << ", " << ranks << " ranks, " << micros << " micro-batches, stage "
                                           << stage) {
            BOOST_TEST_MESSAGE(schedule.name << " " << ranks << " " << micros << " " << stage);
            auto o = staged(*table, schedule, shape, 2, stage);
            if (!trains(o.pipeline.table)) o.mode = mode::evaluate;
            (void)proved(table, o);
          }
      }
}

BOOST_AUTO_TEST_CASE(recomputation_and_both_orders_of_gradients_are_proved) {
  const auto table = gpt_table(4, 32, 100, false);
  const auto& one_f_one_b = *find_schedule("1f1b").value();
  for (uint32_t stage = 0; stage <= 3; ++stage)
    for (const bool recompute : {false, true})
      for (const bool micro_first : {false, true})
        BOOST_TEST_CONTEXT("stage " << stage << ", recompute " << recompute << ", micro first " << micro_first) {
          auto o = staged(*table, one_f_one_b, {.ranks = 2, .chunks = 1, .micro_batches = 4}, 2, stage);
          o.recompute = recompute;
          o.gradients.sum_micro_first = micro_first;
          (void)proved(table, o);
        }
}

BOOST_AUTO_TEST_CASE(a_transfer_for_each_boundary_micro_batch_and_direction) {
  const auto table = gpt_table(6, 32, 100, false);
  const auto plans = proved(table, staged(*table, *find_schedule("gpipe").value(), {3, 1, 4}, 1, 0));
  BOOST_TEST(count(*plans[0], kind::send) == 4U);
  BOOST_TEST(count(*plans[0], kind::receive) == 4U);
  BOOST_TEST(count(*plans[1], kind::send) == 8U);
  BOOST_TEST(count(*plans[2], kind::receive) == 4U);
  for (const auto& p : plans) BOOST_TEST(count(*p, kind::load) == 4U);
}

BOOST_AUTO_TEST_CASE(micro_batches_in_flight_are_those_of_the_schedule) {
  const auto table = gpt_table(6, 32, 100, false);
  for (uint32_t p = 2; p <= 4; ++p)
    for (uint32_t m = p; m <= 3 * p; ++m) {
      const auto gpipe = plans_of(table, staged(*table, *find_schedule("gpipe").value(), {p, 1, m}, 1, 0));
      const auto one = plans_of(table, staged(*table, *find_schedule("1f1b").value(), {p, 1, m}, 1, 0));
      for (uint32_t s = 0; s < p; ++s) {
        BOOST_TEST(gpipe[s]->micros_in_flight[s] == m);
        BOOST_TEST(one[s]->micros_in_flight[s] == std::min(p - s, m));
      }
    }
}

BOOST_AUTO_TEST_CASE(ranks_that_differ_in_the_data_coordinate_alone_compute_the_same) {
  const auto table = gpt_table(6, 32, 100, false);
  const auto o = staged(*table, *find_schedule("1f1b").value(), {2, 1, 4}, 3, 3);
  const auto plans = proved(table, o);
  for (uint32_t r = 0; r < plans.size(); ++r) {
    const auto& mine = *plans[r];
    const auto& first = *plans[o.mesh.at_stage(0, mine.layout->pipeline_at(r))];
    for (const lane l : {lane::compute, lane::fabric}) {
      const auto &a = mine.lanes[static_cast<size_t>(l)], &b = first.lanes[static_cast<size_t>(l)];
      BOOST_TEST_REQUIRE(a.size() == b.size());
      for (size_t i = 0; i < a.size(); ++i) BOOST_TEST(mine.describe(a[i]) == first.describe(b[i]));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_stage_holds_only_its_own) {
  const auto table = gpt_table(6, 32, 100, false);
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    const auto whole = plans_of(table, small_options(2, stage));
    const auto plans = proved(table, staged(*table, *find_schedule("1f1b").value(), {2, 1, 4}, 2, stage));
    uint64_t parameters = 0, alone = 0;
    for (const auto& p : plans) parameters += p->memory.parameters + p->memory.moments;
    for (const auto& p : whole) alone += p->memory.parameters + p->memory.moments;
    // The same elements on as many data ranks; gaps between parameters may differ.
    BOOST_TEST(parameters <= alone + 4096);
    BOOST_TEST(parameters + 4096 >= alone);
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_cut_is_refused_with_its_reason) {
  const auto table = gpt_table(2, 32, 100, true);
  const auto refusal = [&](const plan_options& o) {
    const auto made = make_layout(table, o);
    BOOST_REQUIRE(!made.has_value());
    return made.error().text;
  };
  auto o = staged(*table, *find_schedule("gpipe").value(), {2, 1, 2}, 1, 0);
  BOOST_TEST(refusal(o).find("is shared by units of pipeline ranks 0 and 1") != std::string::npos, refusal(o));
  o.pipeline.first_unit = {0, 9};
  BOOST_TEST(refusal(o).find("wanted stages that begin at different units") != std::string::npos, refusal(o));
  o.accumulation = 3;
  BOOST_TEST(refusal(o).find("wanted a schedule of 2 stages on 2 ranks and 3 micro-batches") != std::string::npos,
             refusal(o));
  o.pipeline = {};
  BOOST_TEST(refusal(o).find("got none") != std::string::npos, refusal(o));
}

BOOST_AUTO_TEST_SUITE_END()
