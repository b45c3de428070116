// Tests a list of degrees that a run is to have one after another: degrees that its batch, processes or hosts do not
// allow are refused before the job listens or starts a process; a planned change over hosts has the bits of one
// process.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>

#include "tests/launch/launched.hpp"
#include "tests/launch/local_sshd.hpp"

BOOST_AUTO_TEST_SUITE(asked_degrees)

using namespace troupe::tests;

namespace {

/// Returns the command of one of three hosts, all of which are this machine. The batch is set to 12; in the file
/// `train_batch_size` is 4.
words program(uint32_t rank, uint16_t port, const std::string& degrees) {
  return words{"/usr/bin/env", fmt::format("RANK={}", rank), "WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1",
               fmt::format("MASTER_PORT={}", port)} +
         launched::train("many", {"--set", "train_batch_size=12", "--degrees", degrees});
}

void are_refused(const finished& did, const std::string& what) {
  BOOST_TEST(did.code == 2, did.err);
  BOOST_TEST(did.err.find("--degrees: " + what) != std::string::npos, did.err);
  BOOST_TEST(did.err.find("waits for agents") == std::string::npos, did.err);
  BOOST_TEST(did.err.find("ended with code") == std::string::npos, did.err);
}

}  // namespace

BOOST_AUTO_TEST_CASE(degrees_that_the_processes_of_one_machine_do_not_hold_are_refused_before_they_start) {
  const launched job({});
  const auto with = [&](const std::string& degrees, const words& more = {}) {
    return run(launched::train("many", words{"--set", "train_batch_size=12", "--set", "parallel.data=3", "--set",
                                             "cluster.processes=ranks", "--degrees", degrees} +
                                           more),
               job.folder());
  };
  are_refused(with("3@0,5@2"), "wanted at most 3 data ranks, for which the job's processes are started, got 5@2");
  are_refused(with("2@0,3@2"),
              "wanted at most 2 data ranks, for which the job's processes are started, got 3@2: begin "
              "with the most, or train in one process (cluster.processes=one)");
  are_refused(with("5@0"), "5@0: train_batch_size: wanted a multiple of 5 data ranks, got 12");
  are_refused(with("4@0,3@1", {"--set", "train_batch_size=8", "--set", "parallel.data=2"}),
              "3@1: train_batch_size: wanted a multiple of 3 data ranks, got 8");
}

BOOST_AUTO_TEST_CASE(a_change_behind_the_last_step_is_said_once_at_the_start) {
  const launched job({});
  for (const std::string processes : {"one", "ranks"}) {
    BOOST_TEST_INFO_SCOPE(processes);
    const auto did =
        run(launched::train("many", {"--set", "train_batch_size=12", "--set", "parallel.data=3", "--set",
                                     "cluster.processes=" + processes, "--steps", "3", "--degrees", "3@0,2@1,3@3"}),
            job.folder());
    BOOST_TEST(did.code == 0, did.err);
    const std::string said =
        "troupe: warning: --degrees: 3@3: no effect: the run ends after 3 steps; leave it out, or train more steps\n";
    const size_t at = did.err.find(said);
    BOOST_TEST_REQUIRE(at != std::string::npos, did.err);
    BOOST_TEST(did.err.find(said, at + 1) == std::string::npos, did.err);
    BOOST_TEST((did.out + did.err).find("3 -> 2 ranks at steps 0, 1") != std::string::npos, did.out << did.err);
  }
}

BOOST_AUTO_TEST_CASE(degrees_that_hosts_do_not_hold_are_refused_before_it_listens) {
  const launched job({host_name()});
  const auto with = [&](const std::string& degrees) { return run(program(0, free_port(), degrees), job.folder()); };
  are_refused(with("4@0"), "wanted 3@0 first, the data ranks that cluster.hosts has ranks for, got 4@0");
  are_refused(with("2@0,3@2"), "wanted 3@0 first, the data ranks that cluster.hosts has ranks for, got 2@0");
  are_refused(with("3@0,6@2"), "wanted at most 3 data ranks, for which cluster.hosts has ranks, got 6@2");
}

BOOST_AUTO_TEST_CASE(fewer_ranks_for_a_while_over_hosts_have_the_bits_of_one_process) {
  const launched job({host_name()});
  const std::string degrees = "3@0,2@1,3@3";
  const uint16_t port = free_port();
  process second(program(1, port, degrees), job.folder()), third(program(2, port, degrees), job.folder());
  const auto first = run(program(0, port, degrees), job.folder());
  for (auto* const agent : {&second, &third}) {
    const auto did = agent->end();
    BOOST_TEST(did.code == 0, did.err);
  }
  BOOST_TEST(first.out.find("3 -> 2 -> 3 ranks at steps 0, 1, 3; 0 steps done again") != std::string::npos, first.out);
  job.has_the_losses_of_one_process(first, 3, {"--set", "train_batch_size=12", "--degrees", degrees});
}

BOOST_AUTO_TEST_CASE(a_first_degree_beside_the_files_has_the_same_bits_in_one_process_and_in_several) {
  const launched job({});
  const words options{"--set", "train_batch_size=12", "--set", "parallel.data=3", "--degrees", "6@0,2@2"};
  const auto first = run(launched::train("many", options + words{"--set", "cluster.processes=ranks"}), job.folder());
  job.has_the_losses_of_one_process(first, 3, options);
}

BOOST_AUTO_TEST_SUITE_END()
