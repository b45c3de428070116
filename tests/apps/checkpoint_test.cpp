// Tests runs that are killed and resume, as a user sees it.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(checkpoint)

using namespace troupe::tests;
using nlohmann::json;

namespace {

const std::string saving =
    replaced(smallest, "steps: 6", "steps: 40") + "checkpoint: {every_steps: 5, keep_last: 2, asynchronous: false}\n";

std::map<uint64_t, double> losses_of(const std::string& out) {
  std::map<uint64_t, double> losses;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    const auto event = json::parse(line);
    if (event.contains("loss") && event.contains("step")) losses[event["step"]] = event["loss"];
  }
  return losses;
}

std::vector<std::string> checkpoints_in(const std::filesystem::path& folder, const char* name = "checkpoints") {
  std::vector<std::string> out;
  for (const auto& x : std::filesystem::directory_iterator(folder / "out" / name))
    if (const auto file = x.path().filename(); file != ".lock") out.push_back(file);
  std::sort(out.begin(), out.end());
  return out;
}

void holds(const command_folder& f, const std::vector<std::string>& wanted, const char* name = "checkpoints") {
  BOOST_TEST(checkpoints_in(f.folder.path(), name) == wanted, boost::test_tools::per_element());
}

/// A job with enough steps to be interrupted before its end.
const std::string endless = replaced(smallest, "steps: 6", "steps: 100000");

/// Kills a run once it has printed `said`. Repeats this if the run was then almost at its end.
void kill_once_said(const command_folder& f, const std::string& said) {
  for (int tries = 0; tries < 10; ++tries) {
    BOOST_TEST_INFO_SCOPE("tries " << tries);
    std::filesystem::remove_all(f.folder.path() / "out");
    process p({troupe::places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path());
    BOOST_TEST_REQUIRE(p.wait_for(said));
    p.send(SIGKILL);
    if (p.end().code == 128 + SIGKILL && checkpoints_in(f.folder.path()).back() < "step-00000035") return;
  }
  BOOST_FAIL("the run could not be killed before it was done");
}

/// Returns the step of the checkpoint named by `latest`.
uint64_t newest_step(const command_folder& f) {
  const auto latest = scratch_folder::read(f.folder / "out/checkpoints/latest");
  return std::stoull(latest.substr(latest.find_first_of("0123456789")));
}

/// Stops a run with SIGTERM in its third step or later, and returns its result.
finished terminated(const command_folder& f) {
  process p({troupe::places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for("\"step\":2,"));
  p.send(SIGTERM);
  return p.end();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_that_is_terminated_saves_and_says_so_by_its_exit_code) {
  const command_folder f(endless + "checkpoint: {every_steps: 1000000}\n");
  const auto r = check_exit(143, terminated(f));
  const uint64_t last = losses_of(r.out).rbegin()->first;
  const std::string more = fmt::to_string(last + 2);

  // The run is resumed with another batch size. The refusal must name the file, the difference and the ways to
  // continue, and each of these ways must work.
  const std::string batch = "train_micro_batch_size_per_gpu=2";
  const auto refused = check_exit(1, f.troupe({"train", "job.yaml", "--json", "--steps", more, "--set", batch}));
  for (const std::string& part :
       {std::string("out/checkpoints/step-0000"), std::string("': train_batch_size is 4, was 8, so step "),
        std::string("(--changed-batch) to continue where it was; --fresh begins anew and sets it aside\n")})
    BOOST_TEST_CONTEXT(part) BOOST_TEST(has(refused.err, part), refused.err);
  const auto changed =
      check_exit(0, f.troupe({"train", "job.yaml", "--json", "--steps", more, "--set", batch, "--changed-batch"}));
  BOOST_TEST(losses_of(changed.out).begin()->first == last + 1);
  BOOST_TEST(has(changed.err, fmt::format("continues at sample {} of the data", 8 * last)), changed.err);
  const auto fresh =
      check_exit(0, f.troupe({"train", "job.yaml", "--json", "--steps", "2", "--set", batch, "--fresh"}));
  BOOST_TEST(losses_of(fresh.out).begin()->first == 1U);
}

BOOST_AUTO_TEST_CASE(a_run_that_asks_for_no_checkpoints_is_terminated_without_one_and_says_so) {
  const command_folder f(endless);
  const auto r = check_exit(143, terminated(f));
  BOOST_TEST(
      has(r.err, ": nothing is saved, as neither checkpoint.every_steps nor checkpoint.every_minutes asks for it"),
      r.err);
  BOOST_TEST(!std::filesystem::exists(f.folder / "out/checkpoints"));
  const auto again = check_exit(
      0, f.troupe({"train", "job.yaml", "--json", "--steps", "1", "--set", "train_micro_batch_size_per_gpu=2"}));
  BOOST_TEST(losses_of(again.out).begin()->first == 1U);
}

BOOST_AUTO_TEST_CASE(checkpoints_have_the_names_that_the_file_asks_for_and_runs_resume_from_them) {
  const command_folder f(replaced(smallest, "steps: 6", "steps: 4") +
                         "checkpoint: {every_steps: 2, asynchronous: false, tag: 'global_step{step}'}\n");
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet"}).code == 0);
  holds(f, {"global_step2", "global_step4", "latest"});
  const auto r = check_exit(0, f.troupe({"train", "job.yaml", "--json", "--steps", "6"}));
  BOOST_TEST(losses_of(r.out).begin()->first == 5U);
  const auto back = check_exit(
      0, f.troupe({"train", "job.yaml", "--json", "--steps", "3", "--resume", "out", "--tag", "global_step2"}));
  BOOST_TEST(losses_of(back.out).begin()->first == 3U);
  holds(f, {"global_step2", "global_step3", "latest"});
  holds(f, {"global_step4", "global_step6", "latest"}, "checkpoints.1");
  const auto bad = check_exit(2, f.troupe({"train", "job.yaml", "--set", "checkpoint.tag=../out"}));
  BOOST_TEST(has(bad.err, "checkpoint.tag: wanted letters, digits"), bad.err);
}

BOOST_AUTO_TEST_CASE(other_peoples_files_beside_the_curves_survive_a_run_that_resumes) {
  const command_folder f(replaced(smallest, "steps: 6", "steps: 2") +
                         "checkpoint: {every_steps: 2}\ncsv_monitor: {enabled: true, job_name: csv}\n");
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet"}).code == 0);
  std::string mine = "run,score\n";
  for (int i = 0; i < 500; ++i) mine += fmt::format("{},0.5\n", 100 * i);
  f.folder.write("out/csv/results.csv", mine);
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet", "--steps", "3"}).code == 0);
  BOOST_TEST(scratch_folder::read(f.folder / "out/csv/results.csv") == mine);
  // A foreign file with the name of an output file makes the run fail before it writes anything.
  f.folder.write("out/csv/Validation_Samples_loss.csv", mine);
  const std::string before = scratch_folder::read(f.folder / "out/config.yaml");
  const auto refused = check_exit(2, f.troupe({"train", "job.yaml", "--steps", "5"}));
  BOOST_TEST(has(refused.err, "Validation_Samples_loss.csv begins with 'run,score', wanted a curve of an earlier run"),
             refused.err);
  BOOST_TEST(scratch_folder::read(f.folder / "out/csv/Validation_Samples_loss.csv") == mine);
  BOOST_TEST(scratch_folder::read(f.folder / "out/config.yaml") == before);
}

BOOST_AUTO_TEST_CASE(sigusr1_asks_for_a_checkpoint_and_training_continues) {
  const command_folder f(endless);
  process p({troupe::places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for("\"step\":2,"));
  p.send(SIGUSR1);
  BOOST_TEST_REQUIRE(p.wait_for("\"event\":\"checkpoint\""));
  BOOST_TEST_REQUIRE(p.wait_for("\"event\":\"step\""));
  p.send(SIGINT);
  const auto r = check_exit(130, p.end());
  // A run from which a checkpoint was requested also saves its last step.
  const uint64_t last = losses_of(r.out).rbegin()->first;
  BOOST_TEST(newest_step(f) == last);
  // The run resumes from its own checkpoint and is interrupted again; it must save its last step once more.
  process again({troupe::places::troupe_binary, "train", "job.yaml", "--set", "steps_per_print=1"}, f.folder.path());
  BOOST_TEST_REQUIRE(again.wait_for(fmt::format("step {}/", last + 1)));
  again.send(SIGINT);
  const auto ended = check_exit(130, again.end());
  BOOST_TEST(newest_step(f) > last);
  BOOST_TEST(has(ended.out, fmt::format("next: the same command resumes after step {}\n", newest_step(f))), ended.out);
}

BOOST_AUTO_TEST_CASE(a_run_that_was_asked_for_a_checkpoint_keeps_its_last_step) {
  const command_folder f(replaced(smallest, "steps: 6", "steps: 400"));
  process p({troupe::places::troupe_binary, "train", "job.yaml"}, f.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for("step 1/"));
  p.send(SIGUSR2);
  const auto r = check_exit(0, p.end());
  BOOST_TEST(has(r.out, "model: " + (f.folder / "out/checkpoints/step-00000400").string() + "\n"), r.out);
  BOOST_TEST(newest_step(f) == 400U);
}

BOOST_AUTO_TEST_CASE(an_interrupted_run_saves_where_it_keeps_checkpoints) {
  const command_folder f(endless + "checkpoint: {every_minutes: 1000}\n");
  process p({troupe::places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for("\"step\":2,"));
  p.send(SIGINT);
  const auto r = check_exit(130, p.end());
  BOOST_TEST(has(r.out, "\"checkpoints\":{\"written\":1,\"failed\":0,\"skipped\":0,"), r.out);
}

BOOST_AUTO_TEST_CASE(minutes_are_counted_from_the_last_checkpoint) {
  const command_folder f(smallest);
  const auto with = [&](const char* minutes) {
    check_exit(0, f.troupe({"train", "job.yaml", "--quiet", "--fresh", "--set", minutes, "--set",
                            "checkpoint.when_busy=wait", "--set", "checkpoint.asynchronous=false"}));
  };
  with("checkpoint.every_minutes=1.0e-9");
  // The folder has one checkpoint for every step, and `latest`.
  BOOST_TEST(checkpoints_in(f.folder.path()).size() == 7U);
  with("checkpoint.every_minutes=1000000");
  holds(f, {"latest", "step-00000006"});
}

BOOST_AUTO_TEST_CASE(a_fresh_run_sets_earlier_checkpoints_aside) {
  const command_folder f(replaced(saving, "steps: 40", "steps: 10"));
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"train", "job.yaml", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    const auto r = check_exit(0, f.troupe(all));
    return losses_of(r.out);
  };
  const auto first = train({});
  const auto second = train({"--fresh"});
  BOOST_TEST((first == second));
  holds(f, {"latest", "step-00000005", "step-00000010"}, "checkpoints.1");
  holds(f, {"latest", "step-00000005", "step-00000010"});
  // The run resumes from an earlier checkpoint of its own, so the later checkpoints belong to another history.
  const auto third = train({"--resume", "out/checkpoints/step-00000005", "--steps", "7"});
  BOOST_TEST(third.begin()->first == 6U);
  for (const auto& [step, loss] : third) BOOST_TEST(loss == first.at(step));
  holds(f, {"latest", "step-00000010"}, "checkpoints.2");
  holds(f, {"latest", "step-00000005", "step-00000007"});
  // If --resume names the output folder of a run, the run's newest checkpoint is loaded.
  const auto fourth = train({"--resume", "out", "--steps", "8"});
  BOOST_TEST(fourth.begin()->first == 8U);
  // A run without any steps left to do must not fail.
  const auto r = check_exit(0, f.troupe({"train", "job.yaml", "--steps", "8"}));
  BOOST_TEST(has(r.err, "nothing is left to train"), r.err);
  BOOST_TEST(has(r.out, "done after 8 steps, all of them before this run"), r.out);
  for (const char* of_steps : {"memory by owner", "a step:", "trace:", "report:", "0 steps", " 0.0 ms"})
    BOOST_TEST_CONTEXT(of_steps) BOOST_TEST(!has(r.out, of_steps), r.out);
}

BOOST_AUTO_TEST_CASE(a_run_that_continues_with_other_settings_says_which) {
  const command_folder f(replaced(saving, "steps: 40", "steps: 5"));
  const std::vector<std::string> begin = {"train", "job.yaml",        "--quiet", "--set", "loss.label_smoothing=0.1",
                                          "--set", "ema={decay: 0.9}"};
  check_exit(0, f.troupe(begin));
  const auto with = [&](uint64_t steps, const std::vector<std::string>& set) {
    std::vector<std::string> words = {"train", "job.yaml", "--quiet", "--steps", fmt::format("{}", steps)};
    for (const auto& x : set) words.insert(words.end(), {"--set", x});
    return check_exit(0, f.troupe(words)).err;
  };
  const auto same = with(6, {"loss.label_smoothing=0.1", "ema={decay: 0.9}"});
  BOOST_TEST(!has(same, "other settings"), same);
  const auto other = with(7, {"loss.label_smoothing=0.2", "ema={decay: 0.99}", "optimizer.params.lr=0.002"});
  BOOST_TEST(has(other, "troupe: warning: continues the run of '"), other);
  BOOST_TEST(has(other,
                 "at step 6 with other settings: ema.decay is 0.99, was 0.9; loss.label_smoothing is 0.2, was 0.1; "
                 "optimizer.params.lr is 0.002, was 0.001"),
             other);
}

BOOST_AUTO_TEST_CASE(a_job_that_finds_another_jobs_last_checkpoint_names_the_keys_that_differ) {
  const command_folder f(replaced(saving, "steps: 40", "steps: 5"));
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet"}).code == 0);
  const auto with = [&f](const std::vector<std::string>& set) {
    std::vector<std::string> words = {"train", "job.yaml", "--quiet"};
    for (const auto& x : set) words.insert(words.end(), {"--set", x});
    return f.troupe(words);
  };
  const auto other = check_exit(2, with({"optimizer.params.lr=0.002", "gradient_clipping=2"}));
  BOOST_TEST(has(other.err, "nothing is left to train: '"), other.err);
  BOOST_TEST(has(other.err,
                 "it is of a run with other settings: gradient_clipping is 2, was 1; optimizer.params.lr is 0.002, was "
                 "0.001; set another output for another job"),
             other.err);
  const auto curve =
      check_exit(2, with({"scheduler={type: WarmupLR}", "parameter_groups=[{match: wte, weight_decay: 0}]"}));
  BOOST_TEST(has(curve.err, "scheduler.type is WarmupLR, was none"), curve.err);
  BOOST_TEST(has(curve.err, "parameter_groups is [{match: "), curve.err);
  // Neither the files that a run records nor its number of steps make it a different job.
  const auto same =
      check_exit(0, with({"telemetry.json_lines=true", "sample.tokens=4", "checkpoint.every_steps=2", "steps=4"}));
  BOOST_TEST(has(same.err, "nothing is left to train"), same.err);
  BOOST_TEST(with({"optimizer.params.lr=0.002", "steps=6"}).code == 0);
}

BOOST_AUTO_TEST_CASE(a_run_without_checkpoints_begins_where_the_configuration_says) {
  const command_folder f(saving), other(saving);
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet", "--steps", "5"}).code == 0);
  const std::string path = "checkpoint.load.path=" + (f.folder / "out/checkpoints").string();
  const auto train = [&](const char* steps) {
    const auto r = check_exit(0, other.troupe({"train", "job.yaml", "--json", "--steps", steps, "--set", path}));
    return losses_of(r.out).begin()->first;
  };
  BOOST_TEST(train("7") == 6U);
  BOOST_TEST(train("9") == 8U);  // the run's own checkpoints are newer than the configured one
}

BOOST_AUTO_TEST_CASE(a_killed_run_and_the_one_that_resumes_it_have_one_curve) {
  const std::string job = replaced(saving, "steps: 40", "steps: 20") +
                          "telemetry: {json_lines: true}\ncsv_monitor: {enabled: true, job_name: csv}\n"
                          "mlflow: {enabled: true}\n";
  const command_folder whole(job), cut(job);
  BOOST_TEST_REQUIRE(whole.troupe({"train", "job.yaml", "--quiet"}).code == 0);
  kill_once_said(cut, "\"step\":12,");
  BOOST_TEST_REQUIRE(cut.troupe({"train", "job.yaml", "--quiet"}).code == 0);
  const char* const curve = "out/csv/Train_Samples_train_loss.csv";
  BOOST_TEST(scratch_folder::read(cut.folder / curve) == scratch_folder::read(whole.folder / curve));
  const auto rows = [](const command_folder& f) {
    std::vector<double> out;
    std::istringstream lines(scratch_folder::read(f.folder / "out/steps.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto row = json::parse(line);
      out.push_back(row.at("step"));
      out.push_back(row.at("loss"));
    }
    return out;
  };
  BOOST_TEST(rows(cut) == rows(whole), boost::test_tools::per_element());
  const auto metric = [](const command_folder& f) {  // values and steps, without the times
    std::string out;
    for (const auto& run : std::filesystem::directory_iterator(f.folder / "out/mlruns/0"))
      if (run.is_directory()) {
        std::istringstream lines(scratch_folder::read(run.path() / "metrics/Train/Samples/train_loss"));
        for (std::string line; std::getline(lines, line);) out += line.substr(line.find(' ')) + "\n";
      }
    return out;
  };
  BOOST_TEST(metric(cut) == metric(whole));
}

BOOST_AUTO_TEST_CASE(two_runs_do_not_write_to_one_folder) {
  const command_folder f(endless + "checkpoint: {every_steps: 1000000}\n");
  process p({troupe::places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for("\"step\":1,"));
  const auto second = check_exit(2, f.troupe({"train", "job.yaml"}));
  BOOST_TEST(has(second.err, "is in use: process "), second.err);
  p.send(SIGINT);
  BOOST_TEST(p.end().code == 130);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_cannot_be_written_ends_the_run_only_where_it_should) {
  const auto small_files = [] {
    const rlimit limit{100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  for (const bool asynchronous : {false, true}) {
    const std::string job =
        replaced(smallest, "steps: 6", "steps: 3") +
        "telemetry: {trace: false, report: false}\ncheckpoint: {every_steps: 1, retry_for: 0, asynchronous: " +
        (asynchronous ? "true" : "false") + ", on_error: ";
    const command_folder on(job + "continue}\n"), stop(job + "stop}\n");
    const auto went_on = on.troupe({"train", "job.yaml", "--json"}, small_files);
    BOOST_TEST(went_on.code == 3, went_on.err);  // the run did all steps, but no checkpoint contains the last one
    BOOST_TEST(losses_of(went_on.out).size() == 3U);
    BOOST_TEST(has(went_on.out, "\"checkpoints\":{\"written\":0,\"failed\":"), went_on.out);
    // If an asynchronous save is still in progress when the next one is due, the next one is made later.
    const std::vector<const char*> told =
        asynchronous ? std::vector{"step 1: "} : std::vector{"step 1: ", "step 2: ", "step 3: "};
    for (const char* which : told) BOOST_TEST_CONTEXT(which)
    BOOST_TEST(has(went_on.err, std::string("warning: checkpoint of ") + which), went_on.err);
    const auto stopped = stop.troupe({"train", "job.yaml", "--json"}, small_files);
    BOOST_TEST(stopped.code == 3, stopped.err);  // no checkpoint contains the steps of the run
    BOOST_TEST((asynchronous || losses_of(stopped.out).size() < 3U));
    BOOST_TEST(has(stopped.err, "error: checkpoint of step 1: "), stopped.err);
    for (const auto* f : {&on, &stop})
      for (const auto& name : checkpoints_in(f->folder.path())) BOOST_TEST(!name.starts_with("step-"), name);
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_is_killed_resumes_with_the_same_bits) {
  const command_folder whole(saving), cut(saving);
  const auto reference = check_exit(0, whole.troupe({"train", "job.yaml", "--json"}));
  const auto wanted = losses_of(reference.out);
  kill_once_said(cut, "\"step\":12,");
  const auto again = check_exit(0, cut.troupe({"train", "job.yaml", "--json"}));
  const auto got = losses_of(again.out);
  BOOST_TEST(got.begin()->first > 5U);
  BOOST_TEST(got.begin()->first % 5 == 1U);
  BOOST_TEST(got.rbegin()->first == 40U);
  for (const auto& [step, loss] : got) BOOST_TEST(loss == wanted.at(step));
  const std::vector<std::string> kept = {"latest", "step-00000035", "step-00000040"};
  BOOST_TEST(checkpoints_in(cut.folder.path()) == kept, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_killed_run_resumes_with_the_same_bits_from_a_checkpoint_written_beside_training) {
  const std::string job = replaced(saving, "asynchronous: false", "asynchronous: true");
  const command_folder whole(job), cut(job);
  const auto reference = check_exit(0, whole.troupe({"train", "job.yaml", "--json"}));
  BOOST_TEST(checkpoints_in(whole.folder.path()).back() == "step-00000040");
  const auto wanted = losses_of(reference.out);
  kill_once_said(cut, "\"event\":\"checkpoint\"");
  const auto again = check_exit(0, cut.troupe({"train", "job.yaml", "--json"}));
  const auto got = losses_of(again.out);
  BOOST_TEST_REQUIRE(!got.empty());
  BOOST_TEST(got.begin()->first > 5U);
  for (const auto& [step, loss] : got) BOOST_TEST(loss == wanted.at(step));
}

BOOST_AUTO_TEST_CASE(runs_at_other_degrees_resume_equal_to_rounding) {
  const command_folder f(saving);
  check_exit(0, f.troupe({"train", "job.yaml", "--json", "--steps", "10"}));
  const command_folder whole(saving);
  const auto wanted = losses_of(whole.troupe({"train", "job.yaml", "--json", "--steps", "12"}).out);
  const auto r =
      check_exit(0, f.troupe({"train", "job.yaml", "--json", "--steps", "12", "--set", "parallel.data=1", "--set",
                              "train_micro_batch_size_per_gpu=8", "--set", "zero_optimization.stage=1"}));
  const auto got = losses_of(r.out);
  BOOST_TEST(got.size() == 2U);
  for (const auto& [step, loss] : got) BOOST_TEST(std::abs(loss - wanted.at(step)) < 1e-4);
}

BOOST_AUTO_TEST_CASE(a_damaged_checkpoint_is_refused_by_file) {
  const command_folder f(saving);
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet", "--steps", "5"}).code == 0);
  const auto shard = f.folder.path() / "out/checkpoints/step-00000005/shard-00001.bin";
  {
    std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 17);
    file.put('\x5a');
  }
  const auto r = f.troupe({"train", "job.yaml", "--quiet", "--steps", "8"});
  BOOST_TEST(r.code == 2, r.out);
  BOOST_TEST(has(r.err, "shard-00001.bin': the 32768 bytes at byte 4096"), r.err);
}

BOOST_AUTO_TEST_SUITE_END()
