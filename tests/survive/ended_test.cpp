// Kills processes of a job that start, that are not to be replaced or that are lost too often, and sends signals to the
// job: it starts them again or ends with the cause, and leaves no processes.
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "tests/survive/job_of_three.hpp"

BOOST_AUTO_TEST_SUITE(ended)

using namespace troupe::tests;

BOOST_AUTO_TEST_CASE(a_process_that_is_killed_as_it_starts_is_started_again) {
  for (const useconds_t later_us : {0U, 30'000U, 150'000U}) {
    const command_folder folder(replaced(job_of_three, "steps: 70", "steps: 20"));
    const auto path = folder.folder.path();
    process starts(train_command("out", {}), path);
    for (int i = 0; i < 2000 && !places_in(path).contains(1); ++i) ::usleep(1'000);
    ::usleep(later_us);
    ::kill(places_in(path).at(1), SIGKILL);
    const auto ended = starts.end();
    BOOST_TEST_CONTEXT(later_us << " us later") {
      BOOST_TEST(ended.code == 0, ended.err);
      BOOST_TEST(has(ended.err, "process 1"), ended.err);
      BOOST_TEST(steps_of(path / "out").size() == 20U);
      BOOST_TEST(places_in(path).empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_job_that_shall_stop_at_a_loss_ends_with_its_name) {
  const command_folder folder(endless_job);
  process run(train_command("lost", {"--set", "cluster.on_loss=stop"}), folder.folder.path());
  BOOST_REQUIRE(run.wait_for("\"step\":5,"));
  ::kill(places_in(folder.folder.path()).at(2), SIGKILL);
  const auto ended = run.end();
  BOOST_TEST(ended.code == 1);
  BOOST_TEST(has(ended.err, "rank 2 (process 2) was killed by signal 9"), ended.err);
  BOOST_TEST(places_in(folder.folder.path()).empty());
}

BOOST_AUTO_TEST_CASE(whatever_ends_a_job_all_its_processes_end) {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    const command_folder folder(replaced(job_of_three, "steps: 70", "steps: 100000"));
    process run(train_command("out", {}), folder.folder.path());
    BOOST_REQUIRE(run.wait_for("\"step\":5,"));
    run.send(signal);
    const auto ended = run.end();  // the call returns when the last process has closed the pipe
    for (int i = 0; i < 500 && !places_in(folder.folder.path()).empty(); ++i) ::usleep(10'000);
    BOOST_TEST(places_in(folder.folder.path()).empty(), "signal " << signal);
    BOOST_TEST(ended.code == 128 + signal);
  }
}

BOOST_AUTO_TEST_CASE(a_signal_to_any_process_of_a_job_is_one_to_the_job) {
  for (const uint32_t place : {0U, 1U}) {
    const command_folder folder(endless_job);
    const auto path = folder.folder.path();
    process run(train_command("out", {}), path);
    BOOST_REQUIRE(run.wait_for("\"step\":5,"));
    ::kill(places_in(path).at(place), SIGUSR1);
    BOOST_TEST(run.wait_for("\"event\":\"checkpoint\""));
    ::kill(places_in(path).at(place), SIGTERM);
    const auto ended = run.end();
    BOOST_TEST_CONTEXT("process " << place) {
      BOOST_TEST(ended.code == 128 + SIGTERM, ended.err);
      BOOST_TEST(has(ended.err, "interrupted: the run ends after this step"), ended.err);
      BOOST_TEST(places_in(path).empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_kills_its_processes_again_and_again_ends_with_the_cause) {
  const command_folder folder(
      replaced(replaced(job_of_three, "steps: 70", "steps: 100000"), "lost_after: 1s", "lost_after: 20s"));
  const auto path = folder.folder.path();
  process run(train_command("out", {"--set", "cluster.restarts.max=2"}), path);
  BOOST_REQUIRE(run.wait_for("\"step\":5,"));
  for (const size_t times_joined : {1U, 2U, 0U}) {
    BOOST_TEST_INFO_SCOPE("times joined " << times_joined);
    const auto places = places_in(path);
    BOOST_REQUIRE(places.contains(1));
    ::kill(places.at(1), SIGKILL);
    BOOST_REQUIRE(run.wait_for_error(": 3 data ranks after step", times_joined));
  }
  const auto ended = run.end();
  BOOST_TEST(ended.code == 1);
  BOOST_TEST(has(ended.err, "cluster.restarts.max"), ended.err);
  BOOST_TEST(places_in(path).empty());
}

BOOST_AUTO_TEST_SUITE_END()
