// Trains on three hosts, started as a user starts them. One host comes back without being able to read the text: it
// receives the reason and is left out, the run continues, and the host is accepted after the text is repaired.
#include <boost/test/unit_test.hpp>

#include <filesystem>

#include "tests/machines/small_job.hpp"

BOOST_AUTO_TEST_SUITE(left_out)

using namespace troupe::tests;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_CASE(a_host_that_comes_back_without_the_text_is_left_out_with_its_reason_and_taken_back_once_mended) {
  const scratch_folder file;
  job_on_hosts job(written({.steps = endless}, file), nullptr);
  BOOST_TEST_REQUIRE(job.first().wait_for("\"step\":20,"));
  job.agent(2).send(SIGKILL);
  (void)job.agent(2).end();
  fs::rename(file / "corpus.txt", file / "away.txt");
  job.start_agent(2);
  const auto refused = job.agent(2).end();
  BOOST_TEST(refused.code == 2, refused.err);
  BOOST_TEST(refused.err.find("the job continues without this host: cannot read '") != std::string::npos, refused.err);
  BOOST_TEST_REQUIRE(job.first().wait_for_error("warning: process 2 on c is left out: cannot read '"));
  fs::rename(file / "away.txt", file / "corpus.txt");
  job.start_agent(2);

  BOOST_TEST_REQUIRE(job.first().wait_for_error(": 3 data ranks after step"));
  job.stop();
  const auto ended = job.first().end();
  BOOST_TEST_REQUIRE(ended.code == 0, ended.err);
  const auto terms = terms_told(ended.err);
  BOOST_TEST_REQUIRE(terms.has_value(), ended.err);
  BOOST_TEST_MESSAGE(terms->line);
  BOOST_TEST(terms->line.starts_with("3 -> 2 -> 3 ranks at steps 0, "), terms->line);
  const auto different = job.difference_from_twin(terms->degrees);
  BOOST_TEST(!different, different.value_or(""));
  for (const uint32_t host : {1U, 2U}) BOOST_TEST_CONTEXT("host " << host) BOOST_TEST(job.agent(host).end().code == 0);
  BOOST_TEST(job.left_behind() == "");
}

BOOST_AUTO_TEST_SUITE_END()
