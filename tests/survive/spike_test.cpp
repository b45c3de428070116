// Tests a loss spike in a job of several processes: the run returns to the newest save in memory, in another term, and
// has the bits of a run in one process that returned to a checkpoint of the same step.
#include <boost/test/unit_test.hpp>

#include "tests/apps/topology.hpp"
#include "tests/surprising_text.hpp"
#include "tests/survive/job_of_processes.hpp"

BOOST_AUTO_TEST_SUITE(spike)

using namespace troupe::tests;

namespace {

const std::string job =
    surprising_job +
    "parallel: {data: 2}\nzero_optimization: {stage: 2}\non_spike: {action: skip, min_steps: 8, window: 8}\n"
    "checkpoint: {every_steps: 4, asynchronous: false}\n";

finished trained(const command_folder& f, const std::string& output, const std::vector<std::string>& set) {
  std::vector<std::string> arguments{"train", "job.yaml", "--set", "output=" + output};
  for (const auto& x : set) arguments.insert(arguments.end(), {"--set", x});
  auto out = f.troupe(arguments);
  BOOST_TEST(out.code == 0, out.err);
  return out;
}

void same_steps(const std::filesystem::path& wanted, const std::filesystem::path& got) {
  const auto different = first_difference(steps_of(wanted), steps_of(got));
  BOOST_TEST(!different, (different ? *different : ""));
  BOOST_TEST(steps_of(got).size() == 40U);
}

}  // namespace

BOOST_AUTO_TEST_CASE(processes_go_back_to_a_save_in_memory_or_to_a_checkpoint_with_the_bits_of_one) {
  const command_folder f(job);
  f.folder.write("corpus.txt", surprising_text());
  const auto out = f.folder.path();
  const auto one = trained(f, "one", {});
  BOOST_TEST(has(one.out, " are left out ("), one.out);
  const auto memory = trained(
      f, "memory", {"cluster.processes=ranks", "checkpoint.memory.every_steps=4", "checkpoint.every_steps=1000"});
  BOOST_TEST(has(memory.out, ", from memory; the samples of step"), memory.out);
  same_steps(out / "one", out / "memory");
  const auto disk = trained(f, "disk", {"cluster.processes=ranks", "checkpoint.memory.every_steps=0"});
  // Only the first return loads a checkpoint, whose states are then kept in memory.
  const auto first = disk.out.find("back after step ");
  BOOST_REQUIRE(first != std::string::npos);
  BOOST_TEST(!has(disk.out.substr(first, disk.out.find('\n', first) - first), "from memory"));
  same_steps(out / "one", out / "disk");
}

BOOST_AUTO_TEST_CASE(with_a_save_of_each_step_a_run_leaves_out_the_samples_of_the_spike_alone) {
  const command_folder f(job);
  f.folder.write("corpus.txt", surprising_text());
  const auto out = f.folder.path();
  const auto one = trained(f, "one", {"checkpoint.every_steps=1"});
  const auto memory = trained(f, "memory", {"cluster.processes=ranks", "checkpoint.every_steps=1000"});
  BOOST_TEST(has(memory.out, ", from memory; the samples of step "), memory.out);
  same_steps(out / "one", out / "memory");
}

BOOST_AUTO_TEST_SUITE_END()
