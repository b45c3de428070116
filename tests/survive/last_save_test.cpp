// Tests a process that is lost while the last checkpoint or the export is written: either the job resumes from its
// states in memory, repeats the last step and writes the files, or it ends with an exit code above 0. It must never
// report success without the files.
#include <fmt/format.h>
#include <signal.h>

#include <boost/test/unit_test.hpp>

#include "checkpoint/commit/commit.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"
#include "tests/survive/job_of_processes.hpp"

using namespace troupe::tests;

namespace {

/// A job with a model so large that a save takes a noticeable time.
const std::string large_job =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 256, n_head: 4, n_positions: 32, vocab_size: 256}\n"
    "data: {text: corpus.txt}\nseed: 1\nsteps: 3\ntrain_batch_size: 6\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
    "telemetry: {trace: false, report: false}\n"
    "parallel: {data: 3}\ncluster: {processes: ranks, lost_after: 2s}\noutput: out\n";

/// Runs a job and sends `signal` to the process with the number `place` as soon as the last step was printed.
finished lose_at_the_end(const command_folder& f, uint32_t place, int signal, const std::vector<std::string>& more) {
  std::vector<std::string> all{troupe::places::troupe_binary, "train", "job.yaml", "--json"};
  all.insert(all.end(), more.begin(), more.end());
  process p(all, f.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for("\"step\":2,"));
  const auto pids = places_in(f.folder.path());
  BOOST_TEST_REQUIRE(pids.contains(place));
  BOOST_TEST_REQUIRE(p.wait_for("\"step\":3,"));
  ::kill(pids.at(place), signal);
  return p.end();
}

uint64_t newest_step(const std::filesystem::path& folder) {
  const auto latest = troupe::checkpoint::read_latest(troupe::storage::real_files(), folder);
  if (!latest || !*latest) return 0;
  return troupe::checkpoint::step_of((*latest)->folder).value_or(0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(last_save)

BOOST_AUTO_TEST_CASE(a_rank_lost_during_the_last_save_costs_a_step_and_nothing_that_was_to_be_kept) {
  for (const auto& [place, signal, every] : {std::tuple(1U, SIGKILL, "1"), {2U, SIGSTOP, "3"}, {1U, SIGSTOP, "5"}}) {
    const command_folder f(large_job);
    const auto r = lose_at_the_end(f, place, signal, {"--set", std::string("checkpoint.every_steps=") + every});
    BOOST_TEST_CONTEXT("place " << place << ", signal " << signal << ", every " << every << "\n" << r.err) {
      BOOST_TEST(r.code == 0);
      BOOST_TEST(newest_step(f.folder / "out/checkpoints") == 3U);
      BOOST_TEST(!has(r.err, "the run continues"));
      BOOST_TEST(!has(r.err, "rank 0 (process 0)"));
    }
  }
}

BOOST_AUTO_TEST_CASE(who_leads_is_lost_during_the_last_save_and_another_writes_it) {
  const command_folder f(large_job);
  const auto r = lose_at_the_end(f, 0, SIGKILL, {"--set", "checkpoint.every_steps=3"});
  BOOST_TEST(r.code == 0, r.err);
  BOOST_TEST(newest_step(f.folder / "out/checkpoints") == 3U, r.err);
}

BOOST_AUTO_TEST_CASE(a_rank_lost_during_the_export_does_not_cost_the_weights) {
  const command_folder f(large_job);
  const auto r = lose_at_the_end(f, 1, SIGSTOP, {"--export", "hf", "--set", "zero_optimization.stage=3"});
  BOOST_TEST(r.code == 0, r.err);
  BOOST_TEST(std::filesystem::exists(f.folder / "hf/config.json"));
  BOOST_TEST(std::filesystem::file_size(f.folder / "hf/model.safetensors") > 1'000'000U);
}

BOOST_AUTO_TEST_CASE(a_loss_that_nothing_recovers_from_ends_the_job_with_a_code_and_says_which_step_is_safe) {
  const command_folder f(large_job);
  const auto r = lose_at_the_end(
      f, 1, SIGSTOP,
      {"--set", "cluster.on_loss=stop", "--set", "checkpoint.every_steps=2", "--set", "checkpoint.asynchronous=false"});
  const uint64_t newest = newest_step(f.folder / "out/checkpoints");
  BOOST_TEST((r.code == 0) == (newest == 3U), r.err);  // the save may have been complete before the loss
  if (r.code == 0) return;
  BOOST_TEST(r.code == 1, r.err);
  BOOST_TEST(newest == 2U);
  BOOST_TEST(has(r.err, "step 2 is safe in '" + (f.folder / "out/checkpoints/step-00000002").string() + "'"), r.err);
}

BOOST_AUTO_TEST_CASE(steps_that_are_done_again_are_told_to_scripts) {
  const command_folder f(replaced(large_job, "steps: 3", "steps: 8"));
  process p({troupe::places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for("\"step\":4,"));
  const auto pids = places_in(f.folder.path());
  BOOST_TEST_REQUIRE(pids.contains(1));
  ::kill(pids.at(1), SIGKILL);
  const auto r = p.end();
  BOOST_TEST(r.code == 0, r.err);
  const auto term = r.out.find("{\"event\":\"term\",\"term\":2,\"data\":");
  BOOST_TEST_REQUIRE(term != std::string::npos, r.out);
  BOOST_TEST(has(r.out.substr(term), "\"cause\":\"rank 1 (process 1) was killed by signal 9 (Killed)\"}"), r.out);
  size_t again = 0;
  for (size_t at = 0; (at = r.out.find(",\"again\":true}", at)) != std::string::npos; ++at) ++again;
  BOOST_TEST(has(r.out.substr(term), fmt::format("\"steps_again\":{},", again)), r.out);
}

BOOST_AUTO_TEST_SUITE_END()
