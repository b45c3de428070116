// Checks that a host program gets the same bits in several processes as in one: it offloads states, loads checkpoints
// while it runs, names checkpoints, changes passes and trains its own modules.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <set>
#include <sstream>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"
#include "tests/survive/job_of_processes.hpp"

BOOST_AUTO_TEST_SUITE(host_program)

using namespace troupe::tests;

namespace {

const std::string text_job =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256}\n"
    "data: {text: corpus.txt}\n"
    "parallel: {data: 2}\n"
    "seed: 1\n"
    "steps: 60\n"
    "train_batch_size: 8\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
    "zero_optimization: {stage: 3, stage3_param_persistence_threshold: 0}\n"
    "output: OUT\n"
    "telemetry: {report: false}\n"
    "cluster: {processes: ranks}\n";

const std::string modules_job =
    "parallel: {data: 2}\n"
    "seed: 1\n"
    "steps: 40\n"
    "train_micro_batch_size_per_gpu: 4\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
    "zero_optimization: {stage: 2}\n"
    "output: OUT\n"
    "telemetry: {report: false, trace: false}\n"
    "cluster: {processes: ranks, spares: 1, restarts: {backoff: 100ms}}\n";

std::string in_one(const std::string& job) { return replaced(job, "processes: ranks", "processes: one"); }

finished ran(const command_folder& folder, const std::string& job, const char* name, const char* what) {
  folder.folder.write(std::string(name) + ".yaml", replaced(job, "OUT", name));
  return run({troupe::places::host_program_binary, std::string(name) + ".yaml", what}, folder.folder.path());
}

/// Returns the printed lines of steps, each once: a step that was repeated after a loss must have the same bits.
std::set<std::string> lines_once(const std::string& out) {
  std::set<std::string> found;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) found.insert(line);
  return found;
}

}  // namespace

BOOST_AUTO_TEST_CASE(states_that_move_load_and_change_passes_have_the_bits_of_one_process) {
  const command_folder folder(text_job);
  const auto one = ran(folder, in_one(text_job), "one", "calls"), many = ran(folder, text_job, "many", "calls");
  BOOST_REQUIRE_MESSAGE(one.code == 0, one.err);
  BOOST_REQUIRE_MESSAGE(many.code == 0, many.err);
  BOOST_TEST(one.out == many.out);
  BOOST_TEST(!std::filesystem::exists(folder.folder.path() / "many" / "process0" / "offloaded"));
}

BOOST_AUTO_TEST_CASE(a_loop_of_the_hosts_has_the_bits_of_one_process) {
  const auto job =
      replaced(replaced(text_job, "vocab_size: 256}", "vocab_size: 256, embd_pdrop: 0, attn_pdrop: 0, resid_pdrop: 0}"),
               "train_batch_size: 8",
               "train_batch_size: 24\ntrain_micro_batch_size_per_gpu: 4\nmanaged_gradient_accumulation: false");
  const command_folder folder(job);
  const auto one = ran(folder, in_one(job), "one", "loop"), many = ran(folder, job, "many", "loop");
  BOOST_REQUIRE_MESSAGE(one.code == 0, one.err);
  BOOST_REQUIRE_MESSAGE(many.code == 0, many.err);
  BOOST_TEST(one.out.find("step 5: ") != std::string::npos, one.out);
  BOOST_TEST(one.out == many.out);
}

BOOST_AUTO_TEST_CASE(a_hosts_own_modules_have_the_bits_of_one_process) {
  const command_folder folder(modules_job);
  const auto one = ran(folder, in_one(modules_job), "one", "modules"),
             many = ran(folder, modules_job, "many", "modules");
  BOOST_REQUIRE_MESSAGE(one.code == 0, one.err);
  BOOST_REQUIRE_MESSAGE(many.code == 0, many.err);
  BOOST_TEST(one.out == many.out);
}

BOOST_AUTO_TEST_CASE(a_hosts_own_modules_outlive_a_process_that_is_killed) {
  const command_folder folder(modules_job);
  const auto job = replaced(modules_job, "steps: 40", "steps: 600");
  const auto one = ran(folder, in_one(job), "one", "modules");
  BOOST_REQUIRE_MESSAGE(one.code == 0, one.err);
  folder.folder.write("many.yaml", replaced(job, "OUT", "many"));
  process many({troupe::places::host_program_binary, "many.yaml", "modules"}, folder.folder.path());
  BOOST_REQUIRE(many.wait_for("step 20:"));
  const auto places = places_in(folder.folder.path());
  BOOST_REQUIRE(places.contains(1));
  ::kill(places.at(1), SIGKILL);
  const auto ended = many.end();
  BOOST_REQUIRE_MESSAGE(ended.code == 0, ended.err);
  BOOST_TEST(has(ended.err, "was killed by signal 9"), ended.err);
  BOOST_TEST(lines_once(ended.out) == lines_once(one.out), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(another_name_of_a_checkpoint_is_said_refused_or_not_asked_for) {
  for (const auto& [policy, wanted] : std::map<std::string, std::string>{
           {"Warn", "warning: ranks name different checkpoints: rank 0 'mine', rank 1 'yours-2'"},
           {"Fail", "checkpoint.tag_validation: ranks name different checkpoints: rank 0 'mine', rank 1 'yours-2'"},
           {"Ignore", "saved"}}) {
    BOOST_TEST_CONTEXT(policy) {
      const command_folder folder(text_job);
      const auto did = ran(folder, text_job + "checkpoint: {tag_validation: " + policy + "}\n", "many", "tags");
      BOOST_REQUIRE_MESSAGE(did.code == 0, did.err);
      BOOST_TEST(has(did.out, wanted), did.out);
      BOOST_TEST(has(did.out, "warning: ") == (policy == "Warn"), did.out);
      BOOST_TEST(std::filesystem::exists(folder.folder.path() / "many" / "own" / "mine") == (policy != "Fail"));
      BOOST_TEST(has(did.out, "step 3:"), did.out);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
