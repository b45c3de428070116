// Tests the files in which a run records its steps, and its messages if they cannot be written.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "apps/base/training/progress.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(telemetry)

using namespace troupe::tests;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string everything = smallest +
                               "tensorboard: {enabled: true, job_name: events}\n"
                               "csv_monitor: {enabled: true, output_path: curves, job_name: csv}\n"
                               "telemetry: {json_lines: true}\n"
                               "comms_logger: {enabled: true, verbose: true, debug: true}\n"
                               "flops_profiler: {enabled: true}\n"
                               "wall_clock_breakdown: true\n"
                               "memory_breakdown: true\n"
                               "steps_per_print: 3\n"
                               "evaluation: {every_steps: 4, batches: 1}\n";

size_t num_files(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

BOOST_AUTO_TEST_CASE(everything_that_is_asked_for_is_printed_and_written) {
  const command_folder f(everything);
  const auto r = check_exit(0, f.troupe({"train", "job.yaml", "--set", "data.validation_fraction=0.1"}));
  BOOST_TEST(r.err.empty(), r.err);
  for (const char* part :
       {"comm op: all_gather_into_tensor | gather | time (ms): ", "time (ms) | fwd: ", "flops profiler, step 1, rank 0",
        "memory before the first step", "memory after the first step", "memory at the end", "Comm. Op ",
        "reduce_scatter_tensor | reduce\n", "report: ", "step 4: validation loss "})
    BOOST_TEST(has(r.out, part), part << " is missing in\n" << r.out);
  BOOST_TEST(has(r.out, " nats/byte\n"), r.out);
  BOOST_TEST(!has(r.out, "nats per token"), r.out);
  const auto out = f.folder / "out";
  BOOST_TEST(num_files(out / "events") == 1U);
  const std::string loss = scratch_folder::read(f.folder / "curves/csv/Train_Samples_train_loss.csv");
  BOOST_TEST(loss.starts_with("step,train_loss\n8,5."), loss);
  BOOST_TEST(lines_of(loss) == 7U);
  BOOST_TEST(lines_of(scratch_folder::read(f.folder / "curves/csv/Validation_Samples_loss.csv")) == 3U);
  BOOST_TEST(lines_of(scratch_folder::read(out / "steps.jsonl")) == 8U);
  BOOST_TEST(json::parse(scratch_folder::read(out / "communication.json")).at("operations").size() > 2U);
  const std::string page = scratch_folder::read(out / "report.html");
  for (const char* part : {"<h1>job</h1>", ">done</span> after 6 steps, validation loss ", "block 0", "config.yaml",
                           "trace.json", "zero_optimization"})
    BOOST_TEST(has(page, part), part);
}

BOOST_AUTO_TEST_CASE(runs_of_mlflow_and_of_wandb_have_every_step_and_go_on_with_the_run) {
  const command_folder f(replaced(smallest, "steps: 6", "steps: 4") +
                         "checkpoint: {every_steps: 4}\nmlflow: {enabled: true, run_name: mine}\n"
                         "wandb: {enabled: true, project: p}\n");
  const auto only_folder = [](const fs::path& in) {
    std::vector<fs::path> out;
    for (const auto& e : fs::directory_iterator(in))
      if (e.is_directory() && !e.is_symlink()) out.push_back(e.path());
    BOOST_TEST_REQUIRE(out.size() == 1U, in);
    return out.front();
  };
  const auto is_whole = [&](size_t steps) {
    const fs::path run = only_folder(f.folder / "out/mlruns/0");
    BOOST_TEST(lines_of(scratch_folder::read(run / "metrics/Train/Samples/train_loss")) == steps);
    BOOST_TEST(has(scratch_folder::read(run / "meta.yaml"), "\nstatus: 3\n"));
    BOOST_TEST(scratch_folder::read(run / "tags/mlflow.runName") == "mine");
    BOOST_TEST(scratch_folder::read(run / "params/steps") == fmt::to_string(steps));
    const fs::path offline = only_folder(f.folder / "out/wandb");
    const std::string name = offline.filename().string();
    const std::string bytes = scratch_folder::read(offline / ("run-" + name.substr(name.rfind('-') + 1) + ".wandb"));
    size_t rows = 0;
    for (size_t at = bytes.find("train_loss"); at != std::string::npos; at = bytes.find("train_loss", at + 1)) ++rows;
    BOOST_TEST(rows == 2 * steps);  // a row of the curves and one of the newest values
  };
  check_exit(0, f.troupe({"train", "job.yaml", "--quiet"}));
  is_whole(4);
  check_exit(0, f.troupe({"train", "job.yaml", "--quiet", "--steps", "6"}));
  is_whole(6);
}

BOOST_AUTO_TEST_CASE(a_run_in_stages_tells_of_each_of_them_and_of_the_whole_model) {
  const command_folder f(everything);
  const std::vector<std::string> cut = {"train",
                                        "job.yaml",
                                        "-v",
                                        "--set",
                                        "parallel.pipeline=2",
                                        "--set",
                                        "pipeline.schedule=1f1b",
                                        "--set",
                                        "tied_gradients=per_use",
                                        "--set",
                                        "gradient_accumulation_steps=4",
                                        "--set",
                                        "data.validation_fraction=0.1"};
  const auto r = check_exit(0, f.troupe(cut));
  for (const char* part :
       {", pipeline 2 x shard 2, ZeRO-3, stages of ", "stages, a step of one rank of each; ",
        "  stage  ranks      units  in flight  gathers        sent  idle planned  measured\n", "\n      1  2,3 ",
        "time (ms) | stage 0 | fwd: ", "time (ms) | stage 1 | fwd: ", " | pipe_recv_grad: ",
        "flops profiler, step 1, one rank of each stage", "comm op: send_receive | send | time (ms): "})
    BOOST_TEST(has(r.out, part), part << " is missing in\n" << r.out);
  const auto out = f.folder / "out";
  const std::string page = scratch_folder::read(out / "report.html");
  for (const char* part : {"<h2>Stages</h2>", "pipeline 2 x shard 2", "rank 3, stage 1, host"})
    BOOST_TEST(has(page, part), part);
  BOOST_TEST(has(scratch_folder::read(out / "trace.json"), "\"rank 2, stage 1\""));
  auto with_json = cut;  // -v has no effect beside --json, and is refused there
  std::erase(with_json, "-v");
  with_json.emplace_back("--json");
  const auto script = check_exit(0, f.troupe(with_json));
  const auto end = json::parse(script.out.substr(script.out.rfind('\n', script.out.size() - 2) + 1));
  const auto& stages = end.at("pipeline").at("stages");
  BOOST_TEST_REQUIRE(stages.size() == 2U);
  uint64_t gathers = 0;
  for (const auto& s : stages) {
    gathers += s.at("gathers").get<uint64_t>();
    // A step sends its activations with their headers.
    BOOST_TEST(s.at("sent_bytes").get<uint64_t>() > 4U * 4 * 64 * 64 * 4);
    for (const char* idle : {"planned_idle", "measured_idle"}) {
      BOOST_TEST_INFO_SCOPE(idle);
      BOOST_TEST(s.at(idle).get<double>() > 0);
      BOOST_TEST(s.at(idle).get<double>() < 1);
    }
  }
  BOOST_TEST(end.at("gathers") == 6 * gathers);
  BOOST_TEST(stages[0].at("micros_in_flight") == 2);
  BOOST_TEST(stages[1].at("micros_in_flight") == 1);
  for (const auto& u : end.at("work").at("units")) BOOST_TEST(u.at("backward_s").get<double>() > 0, u.dump());
}

BOOST_AUTO_TEST_CASE(a_script_reads_json_alone_and_quiet_stays_quiet) {
  const command_folder f(everything);
  const auto r = check_exit(0, f.troupe({"train", "job.yaml", "--json", "--set", "data.validation_fraction=0.1"}));
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);) BOOST_TEST(json::parse(line).contains("event"));
  BOOST_TEST(has(r.err, "comm op: "));
  const auto quiet = f.troupe({"train", "job.yaml", "--quiet", "--set", "data.validation_fraction=0.1"});
  BOOST_TEST(lines_of(quiet.out) == 1U, quiet.out);
  BOOST_TEST(quiet.err.empty(), quiet.err);
  // When the second run writes its own curves, it renames those of the first run.
  BOOST_TEST(fs::exists(f.folder / "out/steps.jsonl.previous"));
  BOOST_TEST(num_files(f.folder / "out/events") == 2U);
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_written_is_refused_before_the_run) {
  const command_folder f;
  f.folder.write("taken", "a file");
  for (const std::string key : {"tensorboard", "csv_monitor"}) {
    BOOST_TEST_INFO_SCOPE(key);
    const auto r = check_exit(
        1, f.troupe({"train", "job.yaml", "--set", key + ".enabled=true", "--set", key + ".output_path=taken"}));
    BOOST_TEST(sentences_of(r.err) == 1U, r.err);
    BOOST_TEST(has(r.err, "troupe: error: " + key + ": cannot make the folder "), r.err);
    BOOST_TEST(!has(r.out, "step 1/"), r.out);
    BOOST_TEST(!fs::exists(f.folder / "out"));
  }
}

BOOST_AUTO_TEST_CASE(a_trace_of_an_earlier_run_is_not_named_as_that_of_this_one) {
  const command_folder f;
  check_exit(0, f.troupe({"train", "job.yaml", "--quiet", "--steps", "3"}));
  BOOST_TEST_REQUIRE(fs::exists(f.folder / "out/trace.json"));
  for (const char* key : {"telemetry.trace_steps=0", "telemetry.trace_from_step=3"}) {
    BOOST_TEST_INFO_SCOPE(key);
    const auto r = check_exit(0, f.troupe({"train", "job.yaml", "--fresh", "--json", "--steps", "3", "--set", key}));
    BOOST_TEST(has(r.out, "\"trace\":\"\""), r.out);
    BOOST_TEST(!has(scratch_folder::read(f.folder / "out/report.html"), "trace.json"));
  }
}

BOOST_AUTO_TEST_CASE(a_disk_that_fills_up_is_a_warning_and_the_run_continues) {
  const command_folder f;
  const auto r = f.troupe({"train", "job.yaml", "--quiet", "--set", "telemetry.json_lines=true", "--set",
                           "telemetry.trace=false", "--set", "telemetry.report=false", "--steps", "40"},
                          [] {
                            ::signal(SIGXFSZ, SIG_IGN);
                            const rlimit limit{8000, 8000};
                            ::setrlimit(RLIMIT_FSIZE, &limit);
                          });
  BOOST_TEST(r.code == 0, r.err);
  BOOST_TEST(has(r.out, "done after 40 steps"), r.out);
  BOOST_TEST(has(r.err, "troupe: warning: cannot write "), r.err);
  BOOST_TEST(has(r.err, "the curves are not complete"), r.err);
  BOOST_TEST(sentences_of(r.err) == 2U, r.err);
  const std::string written = scratch_folder::read(f.folder / "out/steps.jsonl");
  BOOST_TEST(written.ends_with("}\n"));
  std::istringstream lines(written);
  for (std::string line; std::getline(lines, line);) BOOST_TEST(json::parse(line).contains("loss"));
}

BOOST_AUTO_TEST_CASE(a_run_whose_folder_is_removed_trains_on_and_says_what_it_could_not_write) {
  const command_folder f(replaced(smallest, "steps: 6", "steps: 1000000") + "telemetry: {json_lines: true}\n");
  process p({troupe::places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for("\"step\":20,"));
  // The run may write into the folder while it is being removed.
  for (std::error_code e; std::filesystem::exists(f.folder / "out");) std::filesystem::remove_all(f.folder / "out", e);
  BOOST_TEST_REQUIRE(p.wait_for_error(" was removed; the run continues"));
  p.send(SIGINT);
  const auto r = check_exit(130, p.end());
  BOOST_TEST(has(r.err, "steps.jsonl: the file was removed during the run; the run continues without these records"),
             r.err);
  BOOST_TEST(has(r.err, "telemetry: not written, as the run's folder "), r.err);
  BOOST_TEST(has(r.err, " was removed: report.html\n"), r.err);
  BOOST_TEST(has(r.err, "the curves are not complete"), r.err);
}

BOOST_AUTO_TEST_CASE(an_interrupted_run_has_a_report_that_says_so) {
  const command_folder f(replaced(smallest, "steps: 6", "steps: 1000000"));
  process p({troupe::places::troupe_binary, "train", "job.yaml"}, f.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for("step 1/"));
  p.send(SIGINT);
  BOOST_TEST(p.end().code == 130);
  BOOST_TEST(has(scratch_folder::read(f.folder / "out/report.html"), ">stopped</span> after "));
}

BOOST_AUTO_TEST_CASE(a_profile_that_no_step_reaches_is_warned_of_and_one_with_a_file_goes_there) {
  const command_folder f;
  const auto late = f.troupe({"train", "job.yaml", "--quiet", "--set", "flops_profiler.enabled=true", "--set",
                              "flops_profiler.profile_step=6"});
  BOOST_TEST(has(late.err, "flops_profiler.profile_step: 6 is not reached in a run of 6 steps"), late.err);
  const auto homeless = check_exit(2, f.troupe({"train", "job.yaml", "--set", "flops_profiler.enabled=true", "--set",
                                                "flops_profiler.output_file=none/profile.txt"}));
  BOOST_TEST(has(homeless.err, "troupe: error: flops_profiler.output_file: cannot write "), homeless.err);
  const auto filed = check_exit(0, f.troupe({"train", "job.yaml", "--set", "flops_profiler.enabled=true", "--set",
                                             "flops_profiler.output_file=profile.txt"}));
  BOOST_TEST(!has(filed.out, "flops profiler"));
  BOOST_TEST(scratch_folder::read(f.folder / "profile.txt").starts_with("flops profiler, step 1, rank 0"));
}

BOOST_AUTO_TEST_CASE(a_slow_link_is_an_event_with_both_ends_and_its_figures) {
  const troupe::actors::slow_link_report x{17, "host b (ranks 1 to 2)", "host a (rank 0)", 2e6, 1e8, 0.45};
  const auto line = json::parse(troupe::apps::slow_link_json(x));
  const json wanted = {{"event", "slow_link"},
                       {"step", 17},
                       {"from", "host b (ranks 1 to 2)"},
                       {"to", "host a (rank 0)"},
                       {"bytes_per_s", 2e6},
                       {"usual_bytes_per_s", 1e8},
                       {"share", 0.45}};
  BOOST_TEST((line == wanted), line.dump());
}

BOOST_AUTO_TEST_SUITE_END()
