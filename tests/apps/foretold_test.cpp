// Tests what a run says at its end about its predicted step.
#include "apps/base/training/foretold.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/base/training/progress.hpp"
#include "plan/kinds.hpp"
#include "tests/apps/topology.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(foretold)

using namespace troupe::tests;
namespace apps = troupe::apps;
namespace plan = troupe::plan;

namespace {

apps::step_figures predicted() {
  apps::step_figures out{.step_s = 0.1, .exposed_s = 0.01, .disk_s = 0, .memory_bytes = uint64_t{100} << 20};
  out.division.exposed_s = {{plan::kind::forward, 0.03}, {plan::kind::backward, 0.06}, {plan::kind::reduce, 0.01}};
  return out;
}

troupe::actors::step_report step_of(double seconds, double backward_s) {
  troupe::actors::step_report out;
  out.seconds = seconds;
  out.lanes.exposed_s = 0.02;
  out.lanes.division.exposed_s = {{plan::kind::forward, 0.031}, {plan::kind::backward, backward_s}};
  return out;
}

apps::compared_steps steps_of(const std::vector<double>& seconds, double backward_s) {
  apps::compared_steps out;
  for (size_t i = 0; i < seconds.size(); ++i) {
    auto r = step_of(seconds[i], backward_s);
    r.first_of_plan = i == 0;
    out.add(r);
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_median_step_is_compared_and_a_large_difference_names_a_kind) {
  const auto near = apps::compared(predicted(), steps_of({9, 9, 0.11, 0.10, 0.108, 0.104, 9}, 0.061),
                                   uint64_t{101} << 20, "usual rates");
  BOOST_TEST(near.steps == 5U);
  BOOST_TEST(
      apps::foretold_text(near) ==
      "predicted step 100.0 ms, measured 108.0 ms (-7 %), by usual rates\npredicted exposed communication 10.0 ms, "
      "measured 20.0 ms; memory 100 MiB, measured 101 MiB\n");
  const auto slow = apps::compared(predicted(), steps_of({9, 9, 0.2, 0.2, 0.2}, 0.16), 0, "usual rates");
  BOOST_TEST(has(apps::foretold_text(slow), "measured 200.0 ms (-50 %); `backward` took 100.0 ms longer, by"));
  const auto fast = apps::compared(predicted(), steps_of({9, 9, 0.05, 0.05, 0.05}, 0.02), 0, "usual rates");
  BOOST_TEST(has(apps::foretold_text(fast), "measured 50.0 ms (+100 %); `backward` took 40.0 ms less, by"));
  const auto few = apps::compared(predicted(), steps_of({1, 1, 1, 1}, 0.02), 0, "usual rates");
  BOOST_TEST(apps::foretold_text(few) ==
             "predicted step 100.0 ms, measured: too few steps to compare, by usual rates\n");
  BOOST_TEST(nlohmann::json::parse(apps::foretold_json(few)).at("measured").is_null());
}

BOOST_AUTO_TEST_CASE(work_that_is_hidden_is_not_blamed_and_waits_are) {
  // The step took 100 ms longer in which no lane worked.
  auto steps = steps_of({9, 9, 0.2, 0.2}, 0.06);
  auto r = step_of(0.2, 0.06);
  r.lanes.division.idle_s = 0.3;
  steps.add(r);
  const auto text = apps::foretold_text(apps::compared(predicted(), steps, 0, "usual rates"));
  BOOST_TEST(has(text, "(-50 %); waits between instructions took 100.0 ms longer, by"), text);
}

BOOST_AUTO_TEST_CASE(steps_that_were_skipped_or_saved_and_those_of_an_earlier_plan_are_not_compared) {
  auto steps = steps_of({9, 9, 9, 9, 9, 9}, 0.06);
  BOOST_TEST(steps.number() == 4U);
  BOOST_TEST(!steps.has_changed());
  for (size_t i = 0; i < 8; ++i) {
    auto r = step_of(i < 2 ? 7 : 0.1, 0.06);
    r.first_of_plan = i == 0;
    r.skipped = i == 4;
    r.saved = i == 5;
    if (r.skipped || r.saved) r.seconds = 5;
    steps.add(r);
  }
  BOOST_TEST(steps.number() == 4U);
  BOOST_TEST(steps.has_changed());
  const auto got = apps::compared(predicted(), steps, 0, "usual rates");
  BOOST_TEST(got.measured.step_s == 0.1);
  BOOST_TEST(has(apps::foretold_text(got), "; of the last plan's 4 steps alone; memory "), apps::foretold_text(got));
  BOOST_TEST(nlohmann::json::parse(apps::foretold_json(got)).at("of_last_plan") == true);
}

BOOST_AUTO_TEST_CASE(the_step_after_an_evaluation_is_not_compared) {
  auto steps = steps_of({9, 9, 0.2, 0.2}, 0.06);
  steps.note_evaluation();
  steps.add(step_of(5, 1));
  BOOST_TEST(steps.number() == 2U);
  steps.add(step_of(0.2, 0.06));
  BOOST_TEST(steps.number() == 3U);
  const auto got = apps::compared(predicted(), steps, 0, "usual rates");
  BOOST_TEST(got.measured.step_s == 0.2);
  BOOST_TEST(std::abs(got.measured.division.exposed_s.at(plan::kind::backward) - 0.06) < 1e-9);
}

BOOST_AUTO_TEST_CASE(time_between_steps_is_a_wait) {
  auto steps = steps_of({9, 9}, 0.06);
  for (size_t i = 0; i < 3; ++i) {
    auto r = step_of(0.2, 0.06);
    r.lanes.control.between_s = 0.1;
    steps.add(r);
  }
  const auto text = apps::foretold_text(apps::compared(predicted(), steps, 0, "usual rates"));
  BOOST_TEST(has(text, "(-50 %); waits between instructions took 100.0 ms longer, by"), text);
}

BOOST_AUTO_TEST_CASE(a_run_of_many_ranks_says_why_its_step_is_not_predicted) {
  BOOST_TEST(apps::not_foretold_text(apps::most_foretold_ranks) == "");
  apps::end_summary end;
  end.trained = 1;
  BOOST_TEST(nlohmann::json::parse(apps::end_json(end)).at("not_foretold").is_null());
  end.not_foretold = apps::not_foretold_text(128);
  const std::string wanted =
      "the step is not predicted: a run of up to 64 ranks is, and this one has 128; troupe simulate predicts any "
      "number";
  BOOST_TEST(has(apps::end_text(end), "\n" + wanted + "\n"), apps::end_text(end));
  const auto json = nlohmann::json::parse(apps::end_json(end));
  BOOST_TEST(json.at("not_foretold") == wanted);
  BOOST_TEST(json.at("foretold").is_null());
}

BOOST_AUTO_TEST_CASE(a_swap_behind_an_update_is_hidden_in_predicted_and_measured_steps) {
  // The compute lane works for 10 ms, the shard lane for the next 10 ms, and a swap from 5 to 25 ms.
  auto options = plan::small_options(2, 2, 2);
  options.tiers.optimizer = plan::tier::nvme;
  const auto plans = plan::plans_of(plan::chain_table({1024, 2048, 1024}), options);
  auto t = plan::predict(plans, plan::cost_model());
  t.step_s = 0.025;
  std::vector<troupe::telemetry::rank_spans> measured;
  for (size_t r = 0; r < plans.size(); ++r) {
    const auto& p = *plans[r];
    auto& times = t.ranks[r].instructions;
    for (auto& x : times) x = {};
    const auto first_of = [&](plan::kind kind) {
      const auto at = std::ranges::find_if(p.instructions, [&](const plan::instruction& x) {
        return x.kind == kind && plan::acts(x.guard, plan::branch::not_skipped);
      });
      BOOST_TEST_REQUIRE((at != p.instructions.end()), plan::name_of(kind));
      return at->id;
    };
    times[first_of(plan::kind::forward)] = {0, 0, 0.010};
    times[first_of(plan::kind::update)] = {0.010, 0.010, 0.020};
    times[first_of(plan::kind::swap_in)] = {0.005, 0.005, 0.025};
    auto& rank = measured.emplace_back(troupe::telemetry::rank_spans{.plan = plans[r], .spans = {}});
    for (const auto& x : times)
      rank.spans.push_back({std::llround(1e9 * (1 + x.start_s)), std::llround(1e9 * (1 + x.end_s))});
    rank.told_others.assign(rank.spans.size(), false);
  }
  apps::compared_steps steps;
  for (size_t i = 0; i < 5; ++i) {
    troupe::actors::step_report r;
    r.seconds = 0.025;
    r.first_of_plan = i == 0;
    r.lanes = troupe::telemetry::summarise(measured);
    steps.add(r);
  }
  for (const auto& figures : {apps::figures_of(t), steps.figures(0)}) {
    BOOST_TEST(std::abs(figures.disk_s - 0.005) < 1e-6, figures.disk_s);
    BOOST_TEST(std::abs(figures.division.exposed_s.at(plan::kind::forward) - 0.010) < 1e-6);
    BOOST_TEST(std::abs(figures.division.exposed_s.at(plan::kind::update) - 0.010) < 1e-6);
    BOOST_TEST(std::abs(figures.division.exposed_s.at(plan::kind::swap_in) - 0.005) < 1e-6);
    BOOST_TEST(std::abs(figures.division.idle_s) < 1e-6, figures.division.idle_s);
  }
}

BOOST_AUTO_TEST_CASE(a_predicted_step_is_divided_as_a_measured_one_is) {
  auto options = plan::small_options(2, 3, 2);
  const auto plans = plan::plans_of(plan::chain_table({1024, 2048, 1024}), options);
  const auto figures = apps::figures_of(plan::predict(plans, plan::cost_model()));
  double all = figures.division.idle_s;
  for (const auto& [kind, seconds] : figures.division.exposed_s) all += seconds;
  BOOST_TEST(std::abs(all / figures.step_s - 1) < 0.01, all << " of " << figures.step_s);
  BOOST_TEST(figures.division.exposed_s.at(plan::kind::backward) > 0);
}

BOOST_AUTO_TEST_CASE(every_run_ends_with_its_predicted_step_beside_the_measured_one) {
  const command_folder f(replaced(smallest, "steps: 6", "steps: 8"));
  const auto text = check_exit(0, f.troupe({"train", "job.yaml"})).out;
  for (const char* words : {"predicted step ", ", measured ", "predicted exposed communication ", "; memory "})
    BOOST_TEST(has(text, words), words << " in\n" << text);
  const auto out = check_exit(0, f.troupe({"train", "job.yaml", "--json", "--fresh"})).out;
  const auto last = out.substr(out.rfind("{\"event\":\"end\""));
  const auto end = nlohmann::json::parse(last).at("foretold");
  const auto plan = nlohmann::json::parse(check_exit(0, f.troupe({"plan", "job.yaml", "--json"})).out);
  BOOST_TEST(end.at("predicted").at("step_s") == plan.at("predicted").at("step_s"));
  BOOST_TEST(end.at("measured").at("step_s").get<double>() > 0);
  BOOST_TEST(end.at("rates") == plan.at("rates"));
}

BOOST_AUTO_TEST_CASE(a_run_whose_passes_change_compares_the_steps_of_its_last_plan) {
  const command_folder f(
      replaced(smallest, "steps: 6", "steps: 12") +
      "compile: {deepcompile: true, schedule: [{step: 0, passes: []}, {step: 5, passes: [prefetch]}]}\n");
  const auto out = check_exit(0, f.troupe({"train", "job.yaml", "--json"})).out;
  const auto end = nlohmann::json::parse(out.substr(out.rfind("{\"event\":\"end\""))).at("foretold");
  BOOST_TEST(end.at("of_last_plan") == true);
  BOOST_TEST(end.at("steps") == 5);  // of seven steps with the second plan, all but the first two
}

BOOST_AUTO_TEST_CASE(a_run_does_not_compare_the_steps_after_its_evaluations) {
  const auto compared = [](const std::string& more) {
    const auto held_out = replaced(smallest, "corpus.txt", "corpus.txt, validation_fraction: 0.1");
    const command_folder f(replaced(held_out, "steps: 6", "steps: 10") + more);
    const auto out = check_exit(0, f.troupe({"train", "job.yaml", "--json"})).out;
    return nlohmann::json::parse(out.substr(out.rfind("{\"event\":\"end\""))).at("foretold").at("steps").get<int>();
  };
  // The run evaluates after steps 3, 6 and 9.
  BOOST_TEST(compared("") == compared("evaluation: {every_steps: 3, batches: 2}\n") + 3);
}

BOOST_AUTO_TEST_SUITE_END()
