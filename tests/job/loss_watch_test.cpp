// Tests which losses count as a spike.
#include "job/loss_watch.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>

BOOST_AUTO_TEST_SUITE(loss_watch)

using namespace troupe;

namespace {

using config::spike_action;

config::on_spike_section watch() {
  config::on_spike_section out;
  out.action = spike_action::skip;
  out.window = 4;
  out.min_steps = 3;
  return out;
}

bool is_spike(const std::vector<double>& recent, const job::ended_step& step) {
  return job::judge_loss(watch(), recent, step).is_spike;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_loss_above_the_factor_times_the_median_is_a_spike) {
  BOOST_TEST(!is_spike({1, 2, 9}, {.loss = 6}));
  BOOST_TEST(is_spike({1, 2, 9}, {.loss = 6.01}));
  BOOST_TEST(is_spike({1, 3, 2, 9}, {.loss = 7.51}));  // the median of four losses is the mean of the two in the middle
  BOOST_TEST(!is_spike({1, 3, 2, 9}, {.loss = 7.5}));
  BOOST_TEST(job::judge_loss(watch(), std::vector<double>{3, 1, 2}, {.loss = 1}).usual == 2.0);
}

BOOST_AUTO_TEST_CASE(nothing_is_compared_before_enough_losses_are_there) {
  BOOST_TEST(!is_spike({}, {.loss = 1e9}));
  BOOST_TEST(!is_spike({1, 1}, {.loss = 1e9}));
  BOOST_TEST(is_spike({1, 1, 1}, {.loss = 1e9}));
  BOOST_TEST(!is_spike({0, -1, 0}, {.loss = 1e9}));  // no spike, because the median is not positive
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_is_a_spike_at_any_step) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
    for (const bool skipped : {false, true}) BOOST_TEST(is_spike({}, {.loss = bad, .skipped = skipped}));
}

BOOST_AUTO_TEST_CASE(a_step_that_overflowed_is_no_spike_where_that_is_expected) {
  BOOST_TEST(!is_spike({1, 1, 1}, {.loss = 100, .skipped = true, .expects_overflow = true}));
  BOOST_TEST(is_spike({}, {.loss = 1, .skipped = true}));
}

BOOST_AUTO_TEST_CASE(the_last_losses_of_updates_are_remembered) {
  std::vector<double> recent;
  for (const double x : {1.0, 2.0, 3.0, 4.0, 5.0}) job::remember_loss(watch(), recent, {.loss = x});
  job::remember_loss(watch(), recent, {.loss = 7, .skipped = true});
  job::remember_loss(watch(), recent, {.loss = std::nan("")});
  BOOST_TEST((recent == std::vector<double>{2, 3, 4, 5}));
}

BOOST_AUTO_TEST_CASE(without_an_action_nothing_is_watched) {
  std::vector<double> recent{1, 1, 1};
  BOOST_TEST(!job::judge_loss({}, recent, {.loss = std::nan("")}).is_spike);
  job::remember_loss({}, recent, {.loss = 2});
  BOOST_TEST(recent.size() == 3U);
}

BOOST_AUTO_TEST_SUITE_END()
