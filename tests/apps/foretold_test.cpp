// Tests what a run says at its end about its predicted step.
#include "apps/base/training/foretold.hpp"

#include <nlohmann/json.hpp>

#include "tests/apps/topology.hpp"

BOOST_AUTO_TEST_SUITE(foretold)

using namespace troupe::tests;
namespace apps = troupe::apps;
namespace plan = troupe::plan;

namespace {

apps::step_figures predicted() {
  apps::step_figures out{.step_s = 0.1, .exposed_s = 0.01, .disk_s = 0, .memory_bytes = uint64_t{100} << 20};
  out.busy_s = {{plan::kind::forward, 0.03}, {plan::kind::backward, 0.06}, {plan::kind::update, 0.01}};
  return out;
}

troupe::telemetry::step_summary means(double backward_s) {
  troupe::telemetry::step_summary out;
  out.exposed_s = 0.02;
  out.work.kinds = {{plan::kind::forward, 1, 0.031}, {plan::kind::backward, 1, backward_s}, {plan::kind::update, 1, 0}};
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_median_step_is_compared_and_a_large_difference_names_a_kind) {
  const std::vector<double> seconds{9, 9, 0.11, 0.10, 0.108, 0.104, 9};
  const auto near = apps::compared(predicted(), means(0.061), seconds, uint64_t{101} << 20, "usual rates");
  BOOST_TEST(near.steps == 5U);
  BOOST_TEST(
      apps::foretold_text(near) ==
      "predicted step 100.0 ms, measured 108.0 ms (-7 %), by usual rates\npredicted exposed communication 10.0 ms, "
      "measured 20.0 ms; memory 100 MiB, measured 101 MiB\n");
  const auto slow = apps::compared(predicted(), means(0.16), {9, 9, 0.2, 0.2, 0.2}, 0, "usual rates");
  BOOST_TEST(has(apps::foretold_text(slow), "measured 200.0 ms (-50 %); `backward` took 100.0 ms longer, by"));
  const auto fast = apps::compared(predicted(), means(0.02), {9, 9, 0.05, 0.05, 0.05}, 0, "usual rates");
  BOOST_TEST(has(apps::foretold_text(fast), "measured 50.0 ms (+100 %); `backward` took 40.0 ms less, by"));
  const auto few = apps::compared(predicted(), means(0.02), {1, 1, 1, 1}, 0, "usual rates");
  BOOST_TEST(apps::foretold_text(few) ==
             "predicted step 100.0 ms, measured: too few steps to compare, by usual rates\n");
  BOOST_TEST(nlohmann::json::parse(apps::foretold_json(few)).at("measured").is_null());
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

BOOST_AUTO_TEST_SUITE_END()
