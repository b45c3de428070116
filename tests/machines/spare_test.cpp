// Trains on two hosts with a third one as a spare, started as a user starts them. The spare replaces a host that is
// shut down or lost, without a change of the degrees; losses and norms must equal those of an undisturbed run.
#include <boost/test/unit_test.hpp>

#include "tests/machines/small_job.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(spare)

using namespace troupe::tests;

namespace {

const small_job two_hosts{
    .data = 2, .steps = endless, .batch = 8, .hosts = "[{name: a}, {name: b}, {name: c, spare: true}]"};

struct two_and_a_spare {
  scratch_folder file;
  job_on_hosts job;

  two_and_a_spare() : job(written(two_hosts, file), nullptr) {}

  finished ask(const std::vector<std::string>& question) {
    std::vector<std::string> command{troupe::places::troupe_binary};
    command.insert(command.end(), question.begin(), question.end());
    return run(command, job.folder().path());
  }
  /// Waits until the spare host has joined.
  void begin() {
    BOOST_TEST_REQUIRE(job.first().wait_for("\"step\":5,"));
    for (int tries = 0; tries < 100; ++tries) {
      if (ask({"status", "lost"}).out.find("on c, pid") != std::string::npos &&
          ask({"status", "lost"}).out.find(": spare") != std::string::npos)
        return;
      ::usleep(100'000);
    }
    BOOST_TEST(false, "no spare host is shown");
  }
  void end_well(const char* cause, const char* steps_again) {
    BOOST_TEST(job.first().wait_for_error("term 2: 2 data ranks"));
    job.stop();
    const auto ended = job.first().end(std::chrono::seconds(120));
    BOOST_TEST_REQUIRE(ended.code == 0, ended.err);
    BOOST_TEST(ended.err.find(cause) != std::string::npos, ended.err);
    const auto terms = terms_told(ended.err);
    BOOST_TEST_REQUIRE(terms.has_value(), ended.err);
    BOOST_TEST_MESSAGE(terms->line);
    BOOST_TEST(terms->line.starts_with("2 ranks at step 0; "), terms->line);
    BOOST_TEST(terms->line.find(steps_again) != std::string::npos, terms->line);
    const auto different = job.difference_from_twin("2@0");
    BOOST_TEST(!different, different.value_or(""));
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_host_is_replaced_while_the_run_goes_on_and_no_step_is_done_again) {
  two_and_a_spare x;
  x.begin();
  const auto first = x.ask({"replace", "lost", "a"}), none = x.ask({"replace", "lost", "z"}),
             spare = x.ask({"replace", "lost", "c"});
  BOOST_TEST(first.err.find("wanted another host than that of rank 0") != std::string::npos, first.err);
  BOOST_TEST(none.err.find("wanted one of the job's hosts, a, b, c, got 'z'") != std::string::npos, none.err);
  BOOST_TEST(spare.err.find("wanted a host that has ranks, got c") != std::string::npos, spare.err);
  const auto done = x.ask({"replace", "lost", "b"});
  BOOST_TEST_REQUIRE(done.code == 0, done.err);
  BOOST_TEST(done.out == "host b has no ranks from term 2 on: its agent may end\n");
  const auto status = x.ask({"status", "lost"}).out;
  BOOST_TEST(status.find(": resting\n") != std::string::npos, status);
  x.job.agent(1).send(SIGTERM);  // ends the agent; the run continues on the other hosts
  const auto gone = x.job.agent(1).end();
  BOOST_TEST(gone.code == 0, gone.err);
  const auto again = x.ask({"replace", "lost", "c"});
  BOOST_TEST(again.err.find("wanted 1 spare process on other hosts, got 0") != std::string::npos, again.err);
  x.end_well(": a host is replaced; ", "; 0 steps done again");
  const auto third = x.job.agent(2).end();
  BOOST_TEST(third.code == 0, third.err);
  BOOST_TEST(x.job.left_behind() == "");
}

BOOST_AUTO_TEST_CASE(a_spare_host_takes_the_place_of_one_that_is_killed_with_the_same_degrees) {
  two_and_a_spare x;
  x.begin();
  x.job.agent(1).send(SIGKILL);
  x.end_well("the link to its host's agent ended", "; 1 step done again");
  BOOST_TEST(x.job.agent(2).end().code == 0);
}

BOOST_AUTO_TEST_SUITE_END()
