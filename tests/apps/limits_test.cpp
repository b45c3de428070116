// Tests runs to which the system refuses threads or memory, or that are stopped while they start: each prints one
// sentence.
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"
#include "tests/sanitizer_options.hpp"
#include "tests/thread_limit.hpp"

BOOST_AUTO_TEST_SUITE(limits)

using namespace troupe::tests;

namespace {

/// A job with 829 billion parameters: the plan is made quickly, but no machine has the memory.
const std::string enormous =
    replaced(smallest, "n_layer: 2, n_embd: 64, n_head: 4", "n_layer: 120, n_embd: 24000, n_head: 120");

/// A job whose initial weights take seconds to compute and 800 MB of memory.
const std::string large =
    replaced(replaced(smallest, "n_layer: 2, n_embd: 64, n_head: 4", "n_layer: 16, n_embd: 1024, n_head: 4"),
             "optimizer: {type: AdamW, params: {lr: 1.0e-3}}", "optimizer: {type: SGD, params: {lr: 1.0e-3}}");

}  // namespace

BOOST_AUTO_TEST_CASE(refused_threads_end_the_run_with_one_sentence) {
  size_t refused = 0, trained = 0;
  for (const rlim_t threads : {3, 4, 5, 6, 8, 11, 14, 15, 16, 17, 20}) {
    const command_folder f;
    const auto r = f.troupe({"train", "job.yaml", "--steps", "1", "--quiet"}, [threads] {
      add_sanitizer_options(no_leak_check);
      allow_threads_after_exec(threads);
    });
    if (r.code == 0) {
      ++trained;
      continue;
    }
    ++refused;
    BOOST_TEST(r.code == 1, threads << ": " << r.code);
    BOOST_TEST(sentences_of(r.err) == 1U, threads << ": " << r.err);
    BOOST_TEST(has(r.err, "troupe: error: threads: wanted "), threads << ": " << r.err);
    BOOST_TEST(!std::filesystem::exists(f.folder / "out"), threads);
  }
  BOOST_TEST(refused >= 6U);  // two ranks start 16 threads, so many limits must be refused
  BOOST_TEST(trained >= 1U);
}

// OMP_NUM_THREADS must have no effect: no lane uses OpenMP threads, because libgomp ends the process if it cannot start
// one.
BOOST_AUTO_TEST_CASE(a_run_takes_the_same_number_of_threads_whatever_openmp_is_told) {
  for (const rlim_t threads : {16, 17, 18, 19}) {
    const auto code_with = [threads](const char* team) {
      const command_folder f;
      const auto r = f.troupe({"train", "job.yaml", "--steps", "2", "--quiet"}, [threads, team] {
        ::setenv("OMP_NUM_THREADS", team, 1);
        add_sanitizer_options(no_leak_check);
        allow_threads_after_exec(threads);
      });
      BOOST_TEST(!has(r.err, "libgomp"), threads << ": " << r.err);
      return r.code;
    };
    BOOST_TEST(code_with("4") == code_with("1"), threads);
  }
}

BOOST_AUTO_TEST_CASE(more_memory_than_the_machine_has_is_refused_before_it_is_touched) {
  const command_folder f(enormous);
  // The batch is small, so that only the states exceed the memory.
  const auto r = check_exit(1, f.troupe({"train", "job.yaml", "--set", "data.sequence_length=16", "--set",
                                         "train_micro_batch_size_per_gpu=1"}));
  BOOST_TEST(has(r.err, "memory: the states of 829"), r.err);
  BOOST_TEST(has(r.err, "parameters on 2 ranks need 12"), r.err);
  BOOST_TEST(has(r.err, "--fit --memory "), r.err);
  BOOST_TEST(!std::filesystem::exists(f.folder / "out"));
}

BOOST_AUTO_TEST_CASE(batches_and_states_that_do_not_fit_are_refused_together) {
  const command_folder f(enormous);
  const auto r = check_exit(2, f.troupe({"train", "job.yaml", "--set", "train_micro_batch_size_per_gpu=500000"}));
  BOOST_TEST(sentences_of(r.err) == 2U, r.err);
  BOOST_TEST(has(r.err, "train_micro_batch_size_per_gpu: wanted batches that fit the "), r.err);
  BOOST_TEST(has(r.err, "'s free memory of "), r.err);
  BOOST_TEST(has(r.err, "job.yaml:1:1: error: memory: the states of 829"), r.err);
  BOOST_TEST(!std::filesystem::exists(f.folder / "out"));
}

BOOST_AUTO_TEST_CASE(sigterm_while_a_run_opens_ends_it_there) {
  const command_folder f(large);
  for (const int signal : {SIGTERM, SIGINT}) {
    BOOST_TEST_INFO_SCOPE("signal " << signal);
    process p({troupe::places::troupe_binary, "train", "job.yaml"}, f.folder.path());
    BOOST_REQUIRE(p.wait_until_takes(signal));
    BOOST_REQUIRE(p.wait_for_work(std::chrono::milliseconds(100)));
    p.send(signal);
    const auto r = p.end(std::chrono::seconds(20));
    BOOST_TEST(r.code == (signal == SIGTERM ? 143 : 130), r.err);
    BOOST_TEST(has(r.err, "troupe: interrupted: it ends as soon as it can"), r.err);
    BOOST_TEST(has(r.err, "troupe: error: stopped while the run was being opened ("), r.err);
    BOOST_TEST(!std::filesystem::exists(f.folder / "out"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
