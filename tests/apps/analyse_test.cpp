// Tests the command `troupe analyse` on runs of its own and on traces with planted faults.
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "tests/apps/lanes_on_page.hpp"
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

BOOST_AUTO_TEST_CASE(the_step_of_a_runs_folder_stands_beside_what_the_plan_predicts) {
  const command_folder f;
  check_exit(0, f.troupe({"train", "job.yaml", "--quiet"}));
  const auto text = check_exit(0, f.troupe({"analyse", "out"})).out;
  for (const char* words : {"predicted: ", " ms a step (", " %), by ", "predicted ms", "predicted exposed ms"})
    BOOST_TEST(has(text, words), words << " in\n" << text);
  const auto found = analysis_of(f, {"out"}).at("predicted");
  const auto plan = json::parse(check_exit(0, f.troupe({"plan", "job.yaml", "--json"})).out);
  const double predicted_s = found.at("step_seconds"), planned_s = plan.at("predicted").at("step_s");
  BOOST_TEST(std::abs(predicted_s / planned_s - 1) < 0.02, predicted_s << " and " << planned_s);
  BOOST_TEST(found.at("rates") == plan.at("rates"));
  BOOST_TEST(!found.at("critical_path").empty());
  // The trace alone does not say which job it is of.
  const auto trace = check_exit(0, f.troupe({"analyse", "out/trace.json"})).out;
  BOOST_TEST(!has(trace, "predicted"), trace);
  BOOST_TEST(analysis_of(f, {"out/trace.json"}).at("predicted").is_null());
  std::filesystem::remove(f.folder / "out/config.yaml");
  const auto none = check_exit(0, f.troupe({"analyse", "out"})).out;
  BOOST_TEST(has(none, "no prediction: 'out' has no config.yaml of a run\n"), none);
}

BOOST_AUTO_TEST_CASE(a_page_draws_predicted_lanes_above_measured_ones) {
  const command_folder f;
  check_exit(0, f.troupe({"train", "job.yaml", "--quiet"}));
  check_exit(0, f.troupe({"plan", "job.yaml", "--trace", "plan.json"}));
  check_exit(0, f.troupe({"simulate", "job.yaml", "--trace", "simulated.json"}));
  const auto alone =
      check_exit(0, f.troupe({"analyse", "out", "--step", "3", "--html", "alone.html", "--no-prediction"}));
  BOOST_TEST(has(alone.out, "critical path"), alone.out);
  const auto page = scratch_folder::read(f.folder / "alone.html");
  const auto measured = lanes_on(page);
  BOOST_TEST((measured.at("ranks") == json({"rank 0", "rank 1"})));
  BOOST_TEST(has(page, "The lanes are those of step 3, whose length is the median."));
  BOOST_TEST(!has(page, "predicted ms"));
  size_t events = 0, bars = 0;
  const auto trace_1 = json::parse(scratch_folder::read(f.folder / "out/trace.json"));
  for (const auto& e : trace_1.at("traceEvents"))
    if (e.at("ph") == "X" && e.at("args").value("step", -1) == 3) ++events;
  for (const auto& row : measured.at("rows")) {
    BOOST_TEST(row[2] == 0);
    bars += row[3].size() / 4;
  }
  BOOST_TEST(bars == events);
  BOOST_TEST(bars > 20U);

  for (const char* trace : {"plan.json", "simulated.json"}) {
    BOOST_TEST_INFO_SCOPE(trace);
    check_exit(0, f.troupe({"analyse", "out", "--html", "both.html", "--predicted", trace}));
    const auto both = scratch_folder::read(f.folder / "both.html");
    const auto drawn = lanes_on(both);
    std::map<std::pair<int, std::string>, std::vector<int>> predicted;  // rank and lane: of its rows from above
    for (const auto& row : drawn.at("rows"))
      predicted[{row[0].get<int>(), row[1].get<std::string>()}].push_back(row[2].get<int>());
    for (int rank = 0; rank < 2; ++rank)
      for (const char* lane : {"compute", "fabric", "shard"})
        BOOST_TEST((predicted[{rank, lane}] == std::vector<int>{1, 0}), rank << " " << lane);
    for (const char* part : {"ms were predicted", "Above each lane is the predicted one, of step ",
                             "<th>predicted ms</th>", "<h2>Critical path</h2>", "<h2>Exposed communication</h2>",
                             "<th>predicted exposed ms</th>", "<td>gather</td>", "<h2>What would gain most</h2>"})
      BOOST_TEST(has(both, part), part << " is missing");
    BOOST_TEST(!has(both, "http:"));
    BOOST_TEST(!has(both, "have no predicted lanes"));
    // A prediction is analysed like a run.
    const auto x = analysis_of(f, {trace});
    BOOST_TEST(std::abs(sum_of(x.at("critical_path")) - x.at("step_seconds").get<double>()) <=
               1e-3 * x.at("step_seconds").get<double>());
  }
  check_in_browser(f, "both.html");
}

BOOST_AUTO_TEST_CASE(a_page_of_another_number_of_ranks_says_what_is_not_predicted_and_wrong_pages_are_refused) {
  const command_folder f;
  made_job four;
  four.data = 4;
  f.folder.write("four.json", made_trace(four).text());
  f.folder.write("two.json", made_trace(made_job{}).text());
  check_exit(0, f.troupe({"analyse", "four.json", "--html", "p.html", "--predicted", "two.json"}));
  BOOST_TEST(has(scratch_folder::read(f.folder / "p.html"), "2 of 4 ranks have no predicted lanes"));
  const auto alone = check_exit(0, f.troupe({"analyse", "four.json", "--predicted", "two.json"}));
  BOOST_TEST(has(alone.out, " %), by two.json\n"), alone.out);
  const auto both = check_exit(2, f.troupe({"analyse", "four.json", "--predicted", "two.json", "--no-prediction"}));
  BOOST_TEST(has(both.err, "--no-prediction"), both.err);
  const auto none = check_exit(2, f.troupe({"analyse", "four.json", "--html", "n.html", "--predicted", "job.yaml"}));
  BOOST_TEST(has(none.err, "job.yaml"), none.err);
  BOOST_TEST(!std::filesystem::exists(f.folder / "n.html"));
  f.folder.write("kineto.json",
                 R"({"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1,
                     "ts": 0, "dur": 100}, {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,
                     "ts": 10, "dur": 80}]})");
  const auto foreign =
      check_exit(2, f.troupe({"analyse", "four.json", "--html", "n.html", "--predicted", "kineto.json"}));
  BOOST_TEST(has(foreign.err, "--predicted: 'kineto.json': wanted a trace of troupe plan --trace"), foreign.err);
  check_exit(0, f.troupe({"analyse", "kineto.json", "--html", "k.html"}));
  BOOST_TEST(has(scratch_folder::read(f.folder / "k.html"), "aten::mm"));
  const auto nowhere = check_exit(1, f.troupe({"analyse", "four.json", "--html", "nowhere/p.html"}));
  BOOST_TEST(has(nowhere.err, "nowhere/p.html"), nowhere.err);
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
