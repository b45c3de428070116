// Tests the simulation itself: its schedules differ between seeds, are equal for the same seed, and take about the
// predicted time.
#include <chrono>
#include <set>

#include "sim/world.hpp"
#include "tests/sim/world.hpp"

BOOST_AUTO_TEST_SUITE(schedule)

using namespace troupe;
using namespace troupe::actors;
using namespace std::chrono_literals;

namespace {

scenario steady(uint64_t seed) {
  scenario s;
  for (int which = 0; which < 3; ++which)
    s.plans.push_back(plan::plans_of(plan::chain_table({3000, 6000, 6000, 3000}), plan::small_options(3, 3, 2)));
  s.order = {plan::plan_choice::train, plan::plan_choice::train};
  s.options.seed = seed;
  return s;
}

/// Returns a scenario of two steps that save the states.
scenario saving(uint64_t seed) {
  scenario s = steady(seed);
  for (const auto which : {plan::plan_choice::train_saving, plan::plan_choice::save}) {
    auto options = plan::small_options(3, 3, 2);
    options.mode = mode_of(which);
    options.saving.on = true;
    if (options.mode != plan::mode::train) options.accumulation = 1;
    s.plans.push_back(plan::plans_of(plan::chain_table({3000, 6000, 6000, 3000}), options));
  }
  s.order = {plan::plan_choice::train_saving, plan::plan_choice::train_saving};
  return s;
}

sim_result result_of(const scenario& s) {
  auto did = simulate(s.plans, s.order, s.options);
  BOOST_REQUIRE_MESSAGE(did.has_value(), (did ? "" : did.error().text));
  return std::move(*did);
}

/// Returns a world of the steps of steady() in which a segment takes 1 ms.
sim::world slow_steps(std::chrono::nanoseconds stall_after) {
  sim::world_options options;
  options.seed = 1;
  options.costs = plan::cost_model{.flops_per_s = 1e9};
  options.noise = 0.5;
  options.stall_after = stall_after;
  options.work_min = std::chrono::milliseconds(150);
  return sim::world(steady(1).plans, options);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_order_of_messages_depends_on_the_seed) {
  std::set<uint64_t> schedules;
  for (uint64_t seed = 0; seed < 50; ++seed) schedules.insert(result_of(steady(seed)).schedule);
  BOOST_TEST(schedules.size() == 50U);
}

BOOST_AUTO_TEST_CASE(without_latency_and_noise_the_seed_still_chooses_among_ready_messages) {
  std::set<uint64_t> schedules;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    auto s = steady(seed);
    s.options.latency_max = std::chrono::nanoseconds(0);
    s.options.noise = 0;
    schedules.insert(result_of(s).schedule);
  }
  BOOST_TEST(schedules.size() == 50U);
}

BOOST_AUTO_TEST_CASE(the_same_seed_replays_the_same_run_to_the_last_message) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    const auto first = play(seed, true), second = play(seed, true);
    BOOST_TEST(first.schedule == second.schedule);
    BOOST_TEST(first.messages == second.messages);
    BOOST_TEST((first.log == second.log));
    BOOST_REQUIRE_EQUAL(first.runs.size(), second.runs.size());
    const auto &a = first.runs.back().outcome.failure, &b = second.runs.back().outcome.failure;
    BOOST_TEST((a ? a->text : "") == (b ? b->text : ""));
  }
}

BOOST_AUTO_TEST_CASE(a_step_takes_about_the_time_that_its_plan_predicts) {
  auto s = steady(1);
  s.options.noise = 0;
  s.options.costs.flops_per_s = 1e9;  // a segment takes 1 ms, which is much longer than the latency
  for (const auto& r : result_of(s).runs) {
    BOOST_TEST(r.seconds > 0.8 * r.predicted_s);
    BOOST_TEST(r.seconds < 1.5 * r.predicted_s);
  }
}

BOOST_AUTO_TEST_CASE(a_slow_rank_makes_the_step_longer) {
  const auto world = slow_steps(30s);
  const double usual_s = world.run().in_step(2).step_s().value();
  BOOST_TEST(world.with(sim::slow(sim::rank{1}, 5).in_step(2)).run().in_step(2).step_s() > 3 * usual_s);
}

BOOST_AUTO_TEST_CASE(a_silent_instruction_is_named_with_its_rank_within_the_limit) {
  auto s = steady(3);
  s.options.work_min = s.options.stall_after;
  s.options.fault = {sim_fault_kind::silence, 2, 1, plan::lane::compute, 4, 0, 1, {}};
  const auto& p = *s.plans[0][1];
  const auto result = result_of(s);
  const auto& failure = result.runs.back().outcome.failure;
  BOOST_REQUIRE(failure);
  BOOST_TEST((failure->kind == core::error_kind::stalled));
  const bool by_itself =
      failure->text.find("is in " + p.describe(p.lanes[static_cast<size_t>(plan::lane::compute)][4])) !=
      std::string::npos;
  const bool by_a_peer = failure->text.find("waits for rank 1") != std::string::npos;
  BOOST_TEST((by_itself || by_a_peer), failure->text);
  BOOST_TEST(result.runs.back().seconds < 0.1);
}

BOOST_AUTO_TEST_CASE(a_lane_that_works_for_longer_than_silence_may_last_is_waited_for_on_every_rank) {
  // A segment of the slow rank takes 20 ms.
  const auto run = slow_steps(5ms).with(sim::slow(sim::rank{1}, 20).in_step(2)).run();
  BOOST_TEST(run.ended_well());
  BOOST_TEST(run.log().steps.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_freeze_of_any_actor_makes_the_run_wait_and_does_not_end_it) {
  for (const auto kind : {sim_fault_kind::freeze_lane, sim_fault_kind::freeze_rank, sim_fault_kind::freeze_watcher,
                          sim_fault_kind::freeze_loader, sim_fault_kind::freeze_disk, sim_fault_kind::freeze_process}) {
    uint64_t waited = 0;
    for (uint64_t after = 0; after < 40; ++after) {
      auto s = saving(after);
      s.options.fault = {kind, 1, 1, plan::lane::compute, 0, after, 1, std::chrono::milliseconds(120)};
      const auto result = result_of(s);
      for (const auto& r : result.runs) {
        BOOST_TEST(!r.outcome.failure, name_of(kind) << ": " << (r.outcome.failure ? r.outcome.failure->text : ""));
        waited += r.seconds > 0.1 ? 1 : 0;
      }
      BOOST_TEST(result.runs.size() == s.order.size());
    }
    // The watcher only reports, so freezing it delays no instruction.
    BOOST_TEST((waited > 0) == (kind != sim_fault_kind::freeze_watcher), name_of(kind));
  }
}

BOOST_AUTO_TEST_CASE(a_disk_that_never_answers_is_reported_with_its_rank_and_ends_nothing_by_itself) {
  auto s = saving(3);
  s.options.fault = {sim_fault_kind::silence, 1, 1, plan::lane::writer, 1, 0, 1, {}};
  const auto result = result_of(s);
  BOOST_REQUIRE(result.told.size() == 1U);
  BOOST_TEST(result.told[0].find("rank 1: nothing has ended for 0.1 s: ") == 0U, result.told[0]);
  BOOST_TEST(result.told[0].find("writer lane is in ") != std::string::npos, result.told[0]);
  const auto& failure = result.runs.back().outcome.failure;  // the test's host stops the run after the report
  BOOST_REQUIRE(failure);
  BOOST_TEST((failure->kind == core::error_kind::stopped));
}

BOOST_AUTO_TEST_CASE(a_killed_loader_that_is_not_asked_delays_nothing) {
  scenario s = steady(5);
  s.options.fault.kind = sim_fault_kind::kill_loader;
  const auto result = result_of(s);
  const auto& failure = result.runs.front().outcome.failure;
  BOOST_REQUIRE(failure);
  BOOST_TEST(failure->text.find("loader: no batch") != std::string::npos, failure->text);
}

BOOST_AUTO_TEST_SUITE_END()
