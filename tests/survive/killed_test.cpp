// Kills and stops processes of a job at random instants: the run must end with the losses of an undisturbed run with
// the same degrees, and leave no processes or files.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <thread>

#include "core/math.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/survive/job_of_three.hpp"

BOOST_AUTO_TEST_SUITE(killed)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// Stops the job. Retries, because no process answers between two terms.
void stop(const command_folder& folder) {
  for (int tries = 0; tries < 100; ++tries, ::usleep(100'000))
    if (folder.troupe({"stop", "lost"}).code == 0) return;
  BOOST_TEST(false, "nobody leads the job that could stop it");
}

/// Checks that an ended run has the losses of an undisturbed run with the same degrees at the same steps.
void equals_twin(const command_folder& folder, const finished& ended, std::vector<std::string> more = {}) {
  const auto path = folder.folder.path();
  BOOST_REQUIRE_MESSAGE(ended.code == 0, ended.err);
  BOOST_TEST(places_in(path).empty());
  const auto terms = terms_told(ended.err);
  BOOST_REQUIRE_MESSAGE(terms.has_value(), ended.err);
  const auto lost = steps_of(path / "lost");
  BOOST_REQUIRE(!lost.empty());
  more.insert(more.end(), {"--degrees", terms->degrees, "--set", "cluster.processes=one", "--steps",
                           fmt::to_string(lost.rbegin()->first)});
  const auto twin = tests::run(train_command("twin", more), path);
  BOOST_REQUIRE_MESSAGE(twin.code == 0, twin.err);
  const auto different = first_difference(steps_of(path / "twin"), lost);
  BOOST_TEST(!different, (different ? *different : "") << " of " << terms->line << "\n" << ended.err);
}

/// Sends `signal` to the process with the number `place` `later_us` microseconds after step `step`, and compares the
/// run with an undisturbed one. A run without an end is stopped once it is in another term.
finished disturbed(const std::string& yaml, uint32_t place, uint64_t step, uint64_t later_us, int signal,
                   const std::vector<std::string>& more = {}) {
  const command_folder folder(yaml);
  const auto path = folder.folder.path();
  process run(train_command("lost", more), path);
  BOOST_REQUIRE(run.wait_for(fmt::format("\"step\":{},", step)));
  ::usleep(static_cast<useconds_t>(later_us));
  const auto places = places_in(path);
  if (places.contains(place)) ::kill(places.at(place), signal);
  if (signal == SIGSTOP) {
    std::this_thread::sleep_for(std::chrono::milliseconds(later_us % 2 == 0 ? 300 : 1800));
    if (places.contains(place)) ::kill(places.at(place), SIGCONT);
  }
  if (has(yaml, "steps: 1000000")) {
    BOOST_REQUIRE(run.wait_for_error(place == 0 ? " leads after step " : "term 2: "));
    stop(folder);
  }
  auto ended = run.end();
  BOOST_TEST_CONTEXT("place " << place << ", step " << step << ", " << later_us << " us later, signal " << signal) {
    equals_twin(folder, ended, more);
  }
  return ended;
}

}  // namespace

BOOST_AUTO_TEST_CASE(runs_disturbed_at_drawn_instants_equal_those_that_were_not) {
  const uint64_t cases = wanted_cases("TROUPE_LOSSES", 3);
  for (uint64_t i = 0; i < cases; ++i) {
    const uint64_t draw = core::mix64(i + 17);
    const auto place = static_cast<uint32_t>(draw % 3);
    (void)disturbed(job_of_three, place, 1 + draw / 3 % 35, draw / 1000 % 20'000, i % 3 == 2 ? SIGSTOP : SIGKILL);
  }
}

BOOST_AUTO_TEST_CASE(a_spare_takes_the_lost_place_and_the_degrees_stay) {
  const auto ended = disturbed(endless_job, 1, 20, 3'000, SIGKILL, {"--set", "cluster.spares=1"});
  BOOST_TEST(has(ended.err, "3 ranks at step 0;"), ended.err);
}

BOOST_AUTO_TEST_CASE(a_replica_of_a_pipeline_goes_as_a_whole) {
  const auto yaml = replaced(replaced(endless_job, "{data: 3}", "{data: 2, pipeline: 2}"), "{stage: 2}", "{stage: 1}");
  const auto ended = disturbed(yaml, 3, 20, 3'000, SIGKILL);
  BOOST_TEST(has(ended.err, "2 -> 1"), ended.err);
}

// For each degree the batch is divided as for the degree in the file; a loss before the first save leads to the same
// case.
BOOST_AUTO_TEST_CASE(degrees_that_begin_with_fewer_ranks_have_the_bits_of_the_file_at_each_of_them) {
  const command_folder folder(job_of_three);
  const auto path = folder.folder.path();
  const auto trained = [&](const std::string& output, std::vector<std::string> more) {
    more.insert(more.end(), {"--set", "checkpoint.every_steps=4"});
    const auto did = run(train_command(output, more), path);
    BOOST_REQUIRE_MESSAGE(did.code == 0, did.err);
    return steps_of(path / output);
  };
  const std::string one = "cluster.processes=one";
  const auto changed = trained("changed", {"--steps", "7", "--degrees", "2@0,3@4", "--set", one});
  (void)trained("resumed", {"--steps", "4", "--degrees", "2@0", "--set", one});
  BOOST_TEST(first_difference(trained("resumed", {"--steps", "7", "--set", one}), changed).value_or("") == "");
  const auto fewer = trained("fewer", {"--steps", "7", "--degrees", "2@0,1@4", "--set", one});
  BOOST_TEST(first_difference(fewer, trained("many", {"--steps", "7", "--degrees", "2@0,1@4"})).value_or("") == "");
}

BOOST_AUTO_TEST_CASE(a_process_that_is_killed_while_the_run_is_paused_is_recovered_from_at_once) {
  const command_folder folder(endless_job);
  const auto path = folder.folder.path();
  process train_run(train_command("lost", {}), path);
  BOOST_REQUIRE(train_run.wait_for("\"step\":5,"));
  BOOST_REQUIRE(folder.troupe({"pause", "lost"}).code == 0);
  ::kill(places_in(path).at(2), SIGKILL);
  BOOST_TEST(train_run.wait_for_error("term 2: 2 data ranks"));  // the run is still paused when the process is lost
  BOOST_REQUIRE(folder.troupe({"resume", "lost"}).code == 0);
  stop(folder);
  equals_twin(folder, train_run.end());
}

// Each term decides again whether updates run before the vote, and begins with updates after it, whichever of the two
// copies of the states was valid.
BOOST_AUTO_TEST_CASE(a_process_that_is_killed_while_updates_begin_early_is_recovered_from_with_the_same_bits) {
  const std::string yaml =
      "model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256}\n"
      "data: {text: corpus.txt}\n"
      "parallel: {data: 2}\n"
      "seed: 1\n"
      "steps: 1000000\n"
      "train_batch_size: 64\n"
      "gradient_clipping: 100\n"
      "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
      "zero_optimization: {stage: 2, sub_group_size: 16384, reduce_bucket_size: 8192, offload_optimizer: {device: "
      "nvme, nvme_path: swap, buffer_count: 4}}\n"
      "telemetry: {json_lines: true, report: false}\n"
      "cluster: {processes: ranks, spares: 1, swap_gradients: false, lost_after: 20s, restarts: {backoff: 30s}}\n";
  for (const uint32_t place : {0U, 1U}) {
    BOOST_TEST_INFO_SCOPE("place " << place);
    const auto ended = disturbed(yaml, place, 12, 0, SIGKILL);
    BOOST_TEST(has(ended.err, "after 8 steps: updates begin before the norm is known"), ended.err);
    BOOST_TEST(has(ended.err, "2 ranks at step 0;"), ended.err);
  }
}

// All processes are killed at once. The saves in memory survive them, and no step before the newest save is repeated.
BOOST_AUTO_TEST_CASE(processes_that_are_all_killed_at_once_are_started_again_and_continue) {
  const command_folder folder(replaced(endless_job, "backoff: 30s", "backoff: 100ms"));
  const auto path = folder.folder.path();
  process run(train_command("lost", {"--set", "checkpoint={every_steps: 3, keep_last: 1}"}), path);
  BOOST_REQUIRE(run.wait_for("\"step\":20,"));
  const auto all = places_in(path);
  BOOST_TEST(all.size() == 3U);
  for (const auto& [place, pid] : all) ::kill(pid, SIGKILL);
  BOOST_TEST(run.wait_for_error("no process is left to continue: waits for processes that are started again"));
  BOOST_TEST(run.wait_for_error("term 2: 3 data ranks after step "));
  stop(folder);
  const auto ended = run.end();
  BOOST_REQUIRE_MESSAGE(ended.code == 0, ended.err);
  BOOST_TEST(places_in(path).empty());
  const auto terms = terms_told(ended.err);
  BOOST_REQUIRE_MESSAGE(terms.has_value(), ended.err);
  BOOST_TEST(terms->degrees == "3@0", terms->line);
  const auto lost = steps_of(path / "lost");
  BOOST_TEST(lost.size() == lost.rbegin()->first);
  const auto twin = tests::run(
      train_command("twin", {"--set", "cluster.processes=one", "--steps", fmt::to_string(lost.size())}), path);
  BOOST_REQUIRE_MESSAGE(twin.code == 0, twin.err);
  BOOST_TEST(first_difference(steps_of(path / "twin"), lost).value_or("") == "", ended.err);
  for (const auto& one : std::filesystem::directory_iterator(path / "lost" / "checkpoints"))
    BOOST_TEST(!has(one.path().filename(), ".removing-"), one.path());
}

// The test stops all processes including the supervisor, as a suspended machine does.
BOOST_AUTO_TEST_CASE(a_job_that_is_stopped_as_a_whole_continues_when_it_runs_again) {
  const command_folder folder(
      replaced(endless_job, "lost_after: 20s, restarts: {backoff: 30s}", "lost_after: 1s, restarts: {backoff: 100ms}"));
  const auto path = folder.folder.path();
  process run(train_command("lost", {}), path);
  BOOST_REQUIRE(run.wait_for("\"step\":20,"));
  auto all = places_in(path);
  run.send(SIGSTOP);
  for (const auto& [place, pid] : all) ::kill(pid, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  for (const auto& [place, pid] : all) ::kill(pid, SIGCONT);
  run.send(SIGCONT);
  const auto before = steps_of(path / "lost").size();
  BOOST_TEST(before >= 19U);
  BOOST_REQUIRE(run.wait_for(fmt::format("\"step\":{},", before + 20)));
  BOOST_TEST((places_in(path) == all));  // no process was lost
  stop(folder);
  equals_twin(folder, run.end());
}

// A user may change the job file during the run to prepare the next one.
BOOST_AUTO_TEST_CASE(a_process_that_is_started_again_has_the_configuration_that_the_run_began_with) {
  const command_folder folder(replaced(endless_job, "backoff: 30s", "backoff: 100ms"));
  const auto path = folder.folder.path();
  process run(train_command("lost", {"--set", "optimizer.params.lr=2.0e-3"}), path);
  BOOST_REQUIRE(run.wait_for("\"step\":5,"));
  folder.folder.write("job.yaml", replaced(endless_job, "seed: 1", "seed: 2"));
  ::kill(places_in(path).at(1), SIGKILL);
  BOOST_TEST(run.wait_for_error(": 3 data ranks after step"));
  folder.folder.write("job.yaml", endless_job);  // the undisturbed run needs the original file
  stop(folder);
  const auto ended = run.end();
  BOOST_TEST(!has(ended.err, "left out"), ended.err);
  equals_twin(folder, ended, {"--set", "optimizer.params.lr=2.0e-3"});
}

BOOST_AUTO_TEST_SUITE_END()
