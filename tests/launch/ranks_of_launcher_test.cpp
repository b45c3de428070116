// Tests that a job file without degrees uses the launcher's number of ranks for every key that depends on it: valid
// jobs train with the losses of one process, and invalid ones are refused with the launcher's numbers.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <memory>

#include "tests/launch/launched.hpp"
#include "tests/launch/local_sshd.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(ranks_of_launcher)

using namespace troupe::tests;

namespace {

/// Keys that are valid with two ranks but not with one, because `train_batch_size` is 4.
const std::vector<words> of_two_ranks = {
    {"--set", "cluster.min_ranks=2"},
    {"--set", "train_micro_batch_size_per_gpu=2", "--set", "gradient_accumulation_steps=1"},
};

words program(uint32_t rank, const words& variables, const words& more) {
  return words{"/usr/bin/env", fmt::format("RANK={}", rank), "WORLD_SIZE=2"} + variables +
         launched::train("many", more);
}

}  // namespace

BOOST_AUTO_TEST_CASE(keys_that_hold_with_the_launchers_ranks_alone_train_on_one_machine) {
  const launched job({});
  for (const auto& keys : of_two_ranks) BOOST_TEST_CONTEXT(keys.back()) {
      const auto with = [&](uint32_t rank) {
        return program(rank, {fmt::format("LOCAL_RANK={}", rank), "LOCAL_WORLD_SIZE=2"}, keys);
      };
      process second(with(1), job.folder());
      const auto first = run(with(0), job.folder());
      BOOST_TEST(second.end().code == 0);
      job.has_the_losses_of_one_process(first, 2);
    }
}

BOOST_AUTO_TEST_CASE(keys_that_hold_with_the_launchers_ranks_alone_train_on_two_machines) {
  const launched job({host_name()});
  for (const auto& keys : of_two_ranks) BOOST_TEST_CONTEXT(keys.back()) {
      const words at{"MASTER_ADDR=127.0.0.1", fmt::format("MASTER_PORT={}", free_port())};
      process second(program(1, at, keys), job.folder());
      const auto first = run(program(0, at, keys), job.folder());
      const auto other = second.end();
      BOOST_TEST(other.code == 0, other.err);
      job.has_the_losses_of_one_process(first, 2);
    }
}

BOOST_AUTO_TEST_CASE(keys_that_hold_with_a_hostfiles_ranks_alone_train) {
  const launched job({});
  std::ofstream(job.folder() / "hosts") << "localhost slots=2\n";
  for (const auto& keys : of_two_ranks) BOOST_TEST_CONTEXT(keys.back())
  job.has_the_losses_of_one_process(
      run(words{troupe::places::troupe_binary, "launch", "--hostfile", "hosts"} + launched::job("many", keys),
          job.folder()),
      2);
}

BOOST_AUTO_TEST_CASE(what_does_not_hold_with_the_launchers_ranks_is_refused_in_their_numbers) {
  const launched job({});
  const auto refused = [&](const words& keys, const std::string& what) {
    const auto did = run(program(0, {"LOCAL_RANK=0", "LOCAL_WORLD_SIZE=2"}, keys), job.folder());
    BOOST_TEST(did.code == 2, did.err);
    BOOST_TEST(did.err.find(what) != std::string::npos, did.err);
  };
  refused({"--set", "cluster.min_ranks=3"}, "cluster.min_ranks: wanted at most the job's 2 ranks, got 3");
  refused({"--set", "train_micro_batch_size_per_gpu=3"}, "2 data-parallel ranks, got 4, 3 and none: they do not fit");
  refused({"--set", "parallel.data=3", "--set", "cluster.min_ranks=4"}, "wanted at most the job's 3 ranks, got 4");
  refused({"--set", "optimiser.type=AdamW"}, "optimiser");
}

BOOST_AUTO_TEST_SUITE_END()
