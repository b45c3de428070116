// Tests the command `troupe analyse` on runs of its own and on traces with planted faults.
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/apps/topology.hpp"
#include "tests/telemetry/analysis/made_trace.hpp"

BOOST_AUTO_TEST_SUITE(analyse)

using namespace troupe::tests;
using nlohmann::json;
using troupe::telemetry::made_job;
using troupe::telemetry::made_trace;

namespace {

json analysis_of(const command_folder& f, std::vector<std::string> words) {
  words.insert(words.begin(), "analyse");
  words.emplace_back("--json");
  return json::parse(check_exit(0, f.troupe(words)).out);
}

double sum_of(const json& path) {
  double out = 0;
  for (const auto& p : path) out += p.at("seconds").get<double>();
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_is_analysed_by_its_folder_and_the_parts_add_up_to_each_step) {
  const command_folder f;
  check_exit(0, f.troupe({"train", "job.yaml", "--quiet"}));
  const auto shown = check_exit(0, f.troupe({"analyse", "out"}));
  BOOST_TEST(shown.err.empty(), shown.err);
  for (const char* part : {"steps 2 to 4 of out, 2 ranks: ", " ms a step", "critical path", "backward", "communication",
                           "gather", "reduce", "\n1. "})
    BOOST_TEST(has(shown.out, part), part << " is missing in\n" << shown.out);
  const auto x = analysis_of(f, {"out/trace.json"});
  BOOST_TEST(x.at("format") == "troupe analysis");
  BOOST_TEST(x.at("trace_of") == "troupe");
  BOOST_TEST(x.at("ranks") == 2);
  BOOST_TEST_REQUIRE(x.at("steps").size() == 3U);
  for (const auto& s : x.at("steps")) {
    const double seconds = s.at("seconds");
    BOOST_TEST(std::abs(sum_of(s.at("critical_path")) - seconds) <= 1e-3 * seconds, s.dump());
    std::set<std::string> kinds;
    for (const auto& c : s.at("communication")) kinds.insert(c.at("kind"));
    BOOST_TEST((kinds == std::set<std::string>{"gather", "reduce", "vote"}), s.dump());
  }
  BOOST_TEST(std::abs(sum_of(x.at("critical_path")) - x.at("step_seconds").get<double>()) <=
             1e-3 * x.at("step_seconds").get<double>());
  BOOST_TEST(x.at("changes").size() <= 5U);
  const auto one = analysis_of(f, {"out", "--step", "3"});
  BOOST_TEST_REQUIRE(one.at("steps").size() == 1U);
  BOOST_TEST(one.at("steps").front().at("step") == 3);
  BOOST_TEST(one.at("steps").front() == x.at("steps").at(1));
}

BOOST_AUTO_TEST_CASE(a_pipeline_and_states_in_files_are_analysed) {
  const command_folder f;
  check_exit(0, f.troupe({"train", "job.yaml", "--quiet", "--set", "parallel.pipeline=2", "--set",
                          "gradient_accumulation_steps=4", "--set", "tied_gradients=per_use", "--set",
                          "checkpoint.every_steps=3", "--set", "zero_optimization.offload_optimizer.device=nvme",
                          "--set", "zero_optimization.offload_optimizer.nvme_path=swap"}));
  const auto x = analysis_of(f, {"out"});
  BOOST_TEST(x.at("ranks") == 4);
  for (const auto& s : x.at("steps"))
    BOOST_TEST(std::abs(sum_of(s.at("critical_path")) - s.at("seconds").get<double>()) <=
               1e-3 * s.at("seconds").get<double>());
  std::set<std::string> kinds;
  for (const auto& c : x.at("communication")) kinds.insert(c.at("kind"));
  BOOST_TEST((kinds.contains("send") && kinds.contains("receive")), x.dump());
}

BOOST_AUTO_TEST_CASE(a_cause_is_a_sentence_with_a_key_that_the_configuration_has) {
  const command_folder f;
  const std::string keys = check_exit(0, f.troupe({"config", "explain", "job.yaml"})).out;
  const auto first_of = [&](const made_job& job) {
    f.folder.write("planted.json", made_trace(job).text());
    const auto x = analysis_of(f, {"planted.json"});
    BOOST_TEST_REQUIRE(!x.at("changes").empty());
    return x.at("changes").front();
  };
  std::vector<std::pair<std::string, made_job>> planted(7);
  planted[0].first = "data.prefetch_batches", planted[0].second.late_batch = 30'000;
  planted[1].first = "aio.queue_depth", planted[1].second.swap_in = 15'000;
  planted[2].first = "checkpoint.staging_bytes", planted[2].second.snapshot = 90'000;
  planted[3].first = "cluster.early_updates", planted[3].second.update = 25'000;
  planted[4].first = "zero_optimization.stage3_prefetch_bucket_size", planted[4].second.gather = 3000;
  planted[5].first = "zero_optimization.reduce_bucket_size", planted[5].second.reduce = 6000;
  planted[6].first = "pipeline.partition", planted[6].second.stages = 2;
  planted[6].second.slow_stage = 1, planted[6].second.stage_factor = 1.8, planted[6].second.micro = 4;
  for (const auto& [key, job] : planted) {
    const auto c = first_of(job);
    BOOST_TEST(c.at("is_cause") == true, c.dump());
    BOOST_TEST(c.value("key", "") == key, c.dump());
    BOOST_TEST(c.at("sentence").get<std::string>().ends_with(": " + key), c.dump());
    BOOST_TEST(has(keys, key), key);
  }
  made_job slow;
  slow.data = 4, slow.slow_rank = 2, slow.slow_factor = 1.5;
  f.folder.write("slow.json", made_trace(slow).text());
  const auto r = check_exit(0, f.troupe({"analyse", "slow.json"}));
  BOOST_TEST(has(r.out, "\n1. cause: rank 2 computes 1."), r.out);
  BOOST_TEST(has(r.out, " ms a step for rank 2, which arrived last\n"), r.out);
  f.folder.write("healthy.json", made_trace(made_job{}).text());
  const auto healthy = check_exit(0, f.troupe({"analyse", "healthy.json"}));
  BOOST_TEST(has(healthy.out, "\nno cause is named: no change gains enough\n"), healthy.out);
}

BOOST_AUTO_TEST_CASE(a_run_without_a_trace_and_a_step_that_is_not_there_are_refused) {
  const command_folder f;
  check_exit(0, f.troupe({"train", "job.yaml", "--quiet", "--set", "telemetry.trace=false"}));
  const auto none = check_exit(2, f.troupe({"analyse", "out"}));
  BOOST_TEST(none.err ==
                 "troupe: error: 'out': wanted trace.json, which troupe train writes with telemetry.trace, or files "
                 "*.pt.trace.json of torch.profiler; the folder has none\n",
             none.err);
  f.folder.write("t.json", made_trace(made_job{}).text());
  const auto step = check_exit(2, f.troupe({"analyse", "t.json", "--step", "9"}));
  BOOST_TEST(has(step.err, "--step 9: 't.json' has 3 steps, from 0 to 2"), step.err);
  f.folder.write("empty.json", R"({"traceEvents": []})");
  const auto empty = check_exit(2, f.troupe({"analyse", "empty.json"}));
  BOOST_TEST(has(empty.err, "wanted a trace with steps"), empty.err);
  BOOST_TEST(has(empty.err, "telemetry.trace"), empty.err);
  BOOST_TEST(f.troupe({"analyse"}).code == 2);
}

BOOST_AUTO_TEST_SUITE_END()
