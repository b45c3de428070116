// Tests unexpected exceptions and exits in any process of a job at random instants (faults.cpp): either the run does
// all its steps and writes its last checkpoint, or it ends with an exit code above 0. It must neither hang nor end with
// 0 without them.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <cstdlib>

#include "core/math.hpp"
#include "tests/apps/topology.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/places.hpp"
#include "tests/sanitizer_options.hpp"
#include "tests/survive/job_of_processes.hpp"

BOOST_AUTO_TEST_SUITE(thrown)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 40;

const std::string job =
    "model: {model_type: gpt2, n_layer: 1, n_embd: 32, n_head: 2, n_positions: 32, vocab_size: 256}\n"
    "data: {text: corpus.txt, validation_fraction: 0.1}\n"
    "parallel: {data: 2}\n"
    "seed: 1\n"
    "steps: 40\n"
    "train_batch_size: 4\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
    "zero_optimization: {stage: 2}\n"
    "checkpoint: {every_steps: 10}\n"
    "telemetry: {json_lines: true, report: false}\n"
    "cluster: {processes: ranks, lost_after: 5s, restarts: {backoff: 50ms}}\n";

/// Runs the job with the fault `action` in the process `who`.
finished faulted(const command_folder& f, const std::string& who, const std::string& action) {
  const auto library = std::filesystem::path(places::host_program_binary).replace_filename("survive_faults.so");
  const std::string fault = fmt::format("{} {} {}", who, action, (f.folder.path() / ("mark." + who)).string());
  return process({places::troupe_binary, "train", "job.yaml", "--json", "--set", "output=out"}, f.folder.path(),
                 [&] {
                   add_sanitizer_options(any_link_order);
                   ::setenv("LD_PRELOAD", library.c_str(), 1);
                   ::setenv("TROUPE_TEST_FAULT", fault.c_str(), 1);
                 })
      .end(std::chrono::seconds(90));
}

/// Returns the number of allocations that the process `who` makes in an undisturbed run.
uint64_t allocations_of(const std::string& who) {
  const command_folder f(job);
  const auto ended = faulted(f, who, "count 0:0");
  BOOST_TEST_REQUIRE(ended.code == 0, ended.err);
  const auto text = scratch_folder::read(f.folder.path() / ("mark." + who));
  BOOST_TEST_REQUIRE(!text.empty());
  return std::stoull(text);
}

bool is_whole(const command_folder& f) {
  const auto out = f.folder.path() / "out";
  const auto latest = scratch_folder::read(out / "checkpoints" / "latest");
  return steps_of(out).size() == steps && latest.starts_with(fmt::format("step-{:08}", steps)) &&
         f.troupe({"checkpoint", "verify", "out/checkpoints"}).code == 0;
}

void ends_whole_or_says_so(const std::string& who, const std::string& action) {
  const command_folder f(job);
  BOOST_TEST_CONTEXT(who << ": " << action) {
    const auto ended = faulted(f, who, action);
    BOOST_TEST((ended.code != 0 || is_whole(f)), "code " << ended.code << "\n" << ended.err);
    const bool says_nothing = who == "front" && action.starts_with("exit");
    BOOST_TEST((ended.code == 0 || says_nothing || has(ended.err, "troupe: ") || has(ended.err, "terminate")),
               ended.err);
    for (int i = 0; i < 200 && !places_in(f.folder.path()).empty(); ++i) ::usleep(10'000);
    BOOST_TEST(places_in(f.folder.path()).empty());
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(exceptions_and_exits_at_drawn_instants_cost_a_term_or_end_with_a_code) {
  const std::vector<std::string> whose = {"0", "1", "front"};
  std::vector<uint64_t> all;
  for (const auto& who : whose) all.push_back(allocations_of(who));
  const uint64_t cases = wanted_cases("TROUPE_LOSSES", 9);
  for (uint64_t i = 0; i < cases; ++i) {
    const uint64_t draw = core::mix64(i + 5);
    // The instants of the faults are distributed over each process's whole run, including its start and its end.
    const uint64_t of = i % whose.size(), at = 1 + (i * 1000 + draw % 1000) * all[of] / (cases * 1000);
    const bool exits = i / whose.size() % 2 == 1;
    // The exit code of the front program is that of the job: if a fault makes it exit with 0, no process is left to
    // report another code.
    const uint64_t code = whose[of] == "front" ? 1 + draw / 1000 % 2 : draw / 1000 % 3;
    ends_whole_or_says_so(whose[of], exits ? fmt::format("exit {}:{}", at, code) : fmt::format("throw {}:0", at));
  }
}

BOOST_AUTO_TEST_SUITE_END()
