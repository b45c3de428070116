// Compares the expected share of useful time with simulated failures, and the best interval with a search of all.
#include "hardware/interruptions.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

BOOST_AUTO_TEST_SUITE(interruptions)

using namespace troupe::hardware;

BOOST_AUTO_TEST_CASE(the_expected_share_is_the_mean_of_simulated_runs) {
  for (const interrupted_job& job : {interrupted_job{10, 30, 300, 6 * 3600.0}, interrupted_job{2, 100, 600, 1800.0},
                                     interrupted_job{60, 5, 60, 400.0}})
    for (const uint64_t every : {1U, 7U, 40U}) {
      const double expected = expected_useful_share(job, every);
      // A run that is long against the time between failures hardly notices its beginning and its end.
      const auto got = simulated_useful_share(job, every, 3000 * job.mtbf_s, 20, 11);
      BOOST_TEST(std::abs(got.mean - expected) < 5 * got.standard_error + 1e-3,
                 every << " steps: " << got.mean << " +- " << got.standard_error << ", expected " << expected);
      BOOST_TEST(got.standard_error < 0.01);
    }
}

BOOST_AUTO_TEST_CASE(the_best_interval_beats_all_others_and_is_near_youngs) {
  const interrupted_job job{.step_s = 10, .save_s = 20, .restart_s = 300, .mtbf_s = 6 * 3600.0};
  const uint64_t best = best_every_steps(job);
  for (uint64_t every = 1; every < 2000; ++every)
    BOOST_TEST_REQUIRE(expected_useful_share(job, best) >= expected_useful_share(job, every), every);
  BOOST_TEST(std::abs(double(best) / double(youngs_every_steps(job)) - 1) < 0.05);
  BOOST_TEST(best_every_steps({.step_s = 100, .save_s = 0, .restart_s = 1, .mtbf_s = 50}) == 1U);
  BOOST_TEST(youngs_every_steps({.step_s = 100, .save_s = 0, .restart_s = 1, .mtbf_s = 50}) == 1U);
}

BOOST_AUTO_TEST_CASE(dalys_estimate_is_nearer_than_youngs_where_saves_are_long) {
  // A save of 600 s and a failure an hour: sqrt(2 x 600 x 3600) = 2078 s; Daly takes 1.1 of it, less the save.
  const interrupted_job job{.step_s = 10, .save_s = 600, .restart_s = 60, .mtbf_s = 3600};
  BOOST_TEST(youngs_every_steps(job) == 208U);
  BOOST_TEST(dalys_every_steps(job) == 170U);
  const double best = double(best_every_steps(job));
  BOOST_TEST(std::abs(double(dalys_every_steps(job)) / best - 1) < 0.05, best);
  BOOST_TEST(std::abs(double(youngs_every_steps(job)) / best - 1) > 0.15, best);
  BOOST_TEST(dalys_every_steps({.step_s = 10, .save_s = 1000, .restart_s = 60, .mtbf_s = 400}) == 40U);
}

BOOST_AUTO_TEST_CASE(a_job_that_hardly_ever_fails_does_little_else_than_steps) {
  const interrupted_job job{.step_s = 1, .save_s = 1, .restart_s = 60, .mtbf_s = 1e12};
  BOOST_TEST(std::abs(expected_useful_share(job, 99) - 0.99) < 1e-6);
  BOOST_TEST(expected_useful_share({.step_s = 1e6, .save_s = 1, .restart_s = 60, .mtbf_s = 1}, 1) == 0);
  const auto first = simulated_useful_share({1, 5, 60, 3600}, 50, 36000, 10, 3);
  const auto again = simulated_useful_share({1, 5, 60, 3600}, 50, 36000, 10, 3);
  BOOST_TEST(first.mean == again.mean);
}

BOOST_AUTO_TEST_SUITE_END()
