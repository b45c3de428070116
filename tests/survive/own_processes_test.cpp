// Checks that a host program with ranks in several processes (examples/embedding/own_processes.cpp) has the losses of
// the same program in one process, although one of its processes is killed.
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"
#include "tests/survive/job_of_processes.hpp"

BOOST_AUTO_TEST_SUITE(own_processes)

using namespace troupe::tests;

namespace {

const std::string job =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256}\n"
    "data: {text: corpus.txt, validation_fraction: 0.1}\n"
    "parallel: {data: 3}\n"
    "seed: 1\n"
    "steps: 120\n"
    "train_batch_size: 12\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
    "zero_optimization: {stage: 2}\n"
    "output: many\n"
    "telemetry: {json_lines: true, report: false}\n"
    "cluster: {processes: ranks, spares: 1, lost_after: 2s, restarts: {backoff: 100ms}}\n";

/// Returns the validation losses that a run printed, in order.
std::vector<std::string> validated(const std::string& out) {
  std::vector<std::string> found;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);)
    if (has(line, "validation loss")) found.push_back(line);
  return found;
}

}  // namespace

// Process 0 leads the job. When it is lost, another process returns from `serve` and then steps, evaluates and saves.
BOOST_AUTO_TEST_CASE(a_hosts_program_whose_process_is_killed_has_the_losses_of_one_process) {
  for (const uint32_t place : {0U, 1U}) {
    BOOST_TEST_CONTEXT("place " << place) {
      const command_folder folder(job);
      const auto path = folder.folder.path();
      folder.folder.write("one.yaml", replaced(replaced(job, "processes: ranks, spares: 1", "processes: one"),
                                               "output: many", "output: one"));
      const auto one = run({troupe::places::own_processes_binary, "one.yaml"}, path);
      BOOST_REQUIRE_MESSAGE(one.code == 0, one.err);

      process many({troupe::places::own_processes_binary, "job.yaml"}, path);
      BOOST_REQUIRE(many.wait_for("step 10:"));
      const auto places = places_in(path);
      BOOST_REQUIRE(places.size() == 4U);  // three processes have ranks and one is a spare
      ::kill(places.at(place), SIGKILL);
      const auto ended = many.end();
      BOOST_REQUIRE_MESSAGE(ended.code == 0, ended.err);
      BOOST_TEST(has(ended.err, "was killed by signal 9"), ended.err);
      BOOST_TEST(places_in(path).empty());

      const auto different = first_difference(steps_of(path / "one"), steps_of(path / "many"));
      BOOST_TEST(!different, (different ? *different : "") << "\n" << ended.err);
      BOOST_TEST(validated(one.out).size() == 6U);
      BOOST_TEST(validated(ended.out).back() == validated(one.out).back());
      BOOST_TEST(std::filesystem::exists(path / "many" / "checkpoints" / "latest"));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_hosts_program_that_cannot_begin_ends_with_one_sentence) {
  const command_folder folder(replaced(job, "corpus.txt", "absent.txt"));
  const auto ended = run({troupe::places::own_processes_binary, "job.yaml"}, folder.folder.path());
  BOOST_TEST(ended.code != 0);
  BOOST_TEST(has(ended.err, "absent.txt"), ended.err);
  BOOST_TEST(places_in(folder.folder.path()).empty());
}

BOOST_AUTO_TEST_SUITE_END()
