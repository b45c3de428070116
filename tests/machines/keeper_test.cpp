// Trains on three hosts, started as a user starts them, with a batch that two ranks cannot divide: after one host is
// lost, only one host has ranks, and another one without ranks has the only copies of some files of the newest save.
// The loss must cost at most one step and change no bit.
#include <boost/test/unit_test.hpp>

#include "tests/machines/small_job.hpp"

BOOST_AUTO_TEST_SUITE(keeper)

using namespace troupe::tests;

BOOST_AUTO_TEST_CASE(a_host_left_without_ranks_serves_its_files_and_the_end_waits_for_no_host_that_is_lost) {
  const scratch_folder file;
  job_on_hosts job(written({.steps = 60, .batch = 9}, file), nullptr);
  BOOST_TEST_REQUIRE(job.first().wait_for("\"step\":20,"));
  job.agent(2).send(SIGKILL);
  BOOST_TEST_REQUIRE(job.first().wait_for("\"step\":60,"));
  // The end must not wait for lost_after, which is much longer.
  const auto ended = job.first().end(std::chrono::seconds(15));
  BOOST_TEST_REQUIRE(ended.code == 0, ended.err);
  BOOST_TEST(ended.err.find("cannot be used") == std::string::npos, ended.err);
  const auto terms = terms_told(ended.err);
  BOOST_TEST_REQUIRE(terms.has_value(), ended.err);
  BOOST_TEST_MESSAGE(terms->line);
  BOOST_TEST(terms->line.starts_with("3 -> 1 ranks at steps 0, "), terms->line);
  const auto says = [&](const char* what) { return terms->line.find(what) != std::string::npos; };
  BOOST_TEST((says("; 1 step done again") || says("; 0 steps done again")), terms->line);
  const auto different = job.difference_from_twin(terms->degrees);
  BOOST_TEST(!different, different.value_or(""));
  BOOST_TEST(job.agent(1).end().code == 0);
  BOOST_TEST(job.left_behind() == "");
}

BOOST_AUTO_TEST_SUITE_END()
