// Tests real processes under a real supervisor: they are killed, stopped and started again. The processes only count
// steps (worker.cpp).
#include "cluster/launch.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <csignal>

#include "core/clock.hpp"
#include "tests/cluster/worker_log.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(launch)

using namespace troupe;
using namespace troupe::cluster;

namespace {

struct outcome {
  int code = -1;
  std::string terms;
  double seconds = 0;
};

supervised_job three_ranks() {
  supervised_job out;
  out.processes = out.data = 3;
  out.feasible = tests::any_number;
  out.lost_after_ns = 20'000'000'000;  // long, so that on a busy machine no silence counts as a loss
  out.backoff_ns = 200'000'000;
  return out;
}

/// Runs the job in a child process.
outcome run(const supervised_job& job, const std::string& steps, const std::string& fate) {
  const tests::scratch_folder folder;
  const std::string log = (folder.path() / "log").string();
  const int64_t before = core::now_ns();
  const pid_t pid = ::fork();
  if (pid == 0) {
    launch_options options{job,
                           troupe::places::worker,
                           {"worker", log, steps, fate, fmt::to_string(job.lost_after_ns / 1'000'000)},
                           [](const std::string&) {},
                           {}};
    const auto code = launch(options);
    ::_exit(code ? *code : 99);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  outcome out{WIFEXITED(status) ? WEXITSTATUS(status) : -1, {}, double(core::now_ns() - before) / 1e9};
  out.terms = tests::text_of(log);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(processes_that_nothing_happens_to_run_one_term) {
  const auto did = run(three_ranks(), "5", "9@0:0");
  BOOST_TEST(did.code == 0);
  BOOST_TEST(did.terms == "term 1: 3 at 0\n");
}

BOOST_AUTO_TEST_CASE(a_killed_process_costs_a_term_and_comes_back) {
  for (const char* fate : {"1@5:9", "2@5:9"}) {
    BOOST_TEST_INFO_SCOPE(fate);
    const auto did = run(three_ranks(), "30", fate);
    BOOST_TEST(did.code == 0, fate);
    BOOST_TEST(tests::degrees(did.terms) == "3 2 3", did.terms);
    BOOST_TEST(did.terms.find("term 2: 2 at 4\n") != std::string::npos, did.terms);
  }
}

BOOST_AUTO_TEST_CASE(another_process_leads_where_that_one_is_killed) {
  const auto did = run(three_ranks(), "30", "0@5:9");
  BOOST_TEST(did.code == 0);
  BOOST_TEST(tests::degrees(did.terms) == "3 2 3", did.terms);
}

BOOST_AUTO_TEST_CASE(a_stopped_process_is_lost_after_its_silence) {
  auto job = three_ranks();
  job.lost_after_ns = 1'000'000'000;
  const auto did = run(job, "30", "1@5:19");
  BOOST_TEST(did.code == 0);
  BOOST_TEST(tests::degrees(did.terms) == "3 2 3", did.terms);
}

BOOST_AUTO_TEST_CASE(a_process_that_was_stopped_for_a_while_gives_its_ranks_up_and_takes_part_again) {
  auto job = three_ranks();
  job.lost_after_ns = 1'000'000'000;
  const auto did = run(job, "100", "1@5:1000");
  BOOST_TEST(did.code == 0);
  // On a busy machine the stopped process may be silent long enough to count as lost.
  BOOST_TEST((tests::degrees(did.terms) == "3 3" || tests::degrees(did.terms) == "3 2 3"), did.terms);
}

BOOST_AUTO_TEST_CASE(a_spare_takes_the_place_of_a_lost_process) {
  auto job = three_ranks();
  job.spares = 1;
  const auto did = run(job, "30", "1@5:9");
  BOOST_TEST(did.code == 0);
  BOOST_TEST(tests::degrees(did.terms) == "3 3", did.terms);
}

BOOST_AUTO_TEST_CASE(a_loss_ends_a_job_that_shall_stop) {
  auto job = three_ranks();
  job.recovers = false;
  const auto did = run(job, "30", "1@5:9");
  BOOST_TEST(did.code == 1);
  BOOST_TEST(tests::degrees(did.terms) == "3", did.terms);
}

BOOST_AUTO_TEST_SUITE_END()
