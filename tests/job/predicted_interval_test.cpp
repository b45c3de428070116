// Tests the interval of a predicted step, and the constants that matter most.
#include "job/predicted_interval.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "plan/choose/machine_costs.hpp"

BOOST_AUTO_TEST_SUITE(predicted_interval)

using namespace troupe;

namespace {

/// A step of 60 ms of products, 30 ms of copies and 10 ms of started operations.
double step_s(const plan::cost_model& c) {
  return 0.06 * 1e11 / c.machine.product_flops_per_s + 0.03 * 1e10 / c.copy_bytes_per_s +
         0.01 * c.machine.launch_s / 1e-6;
}

job::costs_of_type made(double spread) {
  job::costs_of_type out;
  for (const auto& c : plan::machine_constants()) out.median.*c.field = 1;
  out.median.product_flops_per_s = 1e11;
  out.median.copy_bytes_per_s = 1e10;
  out.median.launch_s = 1e-6;
  out.lower = out.upper = out.median;
  out.lower.product_flops_per_s /= spread;
  out.upper.product_flops_per_s *= spread;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(exact_constants_leave_the_error_of_the_model) {
  const auto exact = made(1);
  const auto costs = plan::measured_model(exact.median, {});
  const auto got = job::interval_of(step_s, costs, exact);
  const double factor = std::exp(1.2816 * job::model_log_sigma);
  BOOST_TEST(std::abs(got.low_s * factor - 0.1) < 1e-12);
  BOOST_TEST(std::abs(got.high_s / factor - 0.1) < 1e-12);
}

BOOST_AUTO_TEST_CASE(the_constants_that_matter_most_are_named_with_their_influence) {
  const auto spread = made(1.1);
  const auto got = job::interval_of(step_s, plan::measured_model(spread.median, {}), spread);
  BOOST_TEST_REQUIRE(got.matter_most.size() == 3U);
  BOOST_TEST(got.matter_most[0].constant == "product_flops_per_s");
  BOOST_TEST(std::abs(got.matter_most[0].percent + 0.6) < 0.01);
  BOOST_TEST(got.matter_most[1].constant == "copy_bytes_per_s");
  BOOST_TEST(std::abs(got.matter_most[1].percent + 0.3) < 0.01);
  BOOST_TEST(got.matter_most[2].constant == "launch_s");
  BOOST_TEST(std::abs(got.matter_most[2].percent - 0.1) < 0.01);
  // A wider spread of the constant makes the interval wider by its influence.
  const auto exact = job::interval_of(step_s, plan::measured_model(spread.median, {}), made(1));
  BOOST_TEST(got.high_s > exact.high_s);
  const double of_constant = 0.6 * std::log(1.1) / 0.6745;
  const double both = std::hypot(of_constant, job::model_log_sigma);
  BOOST_TEST(std::abs(std::log(got.high_s / 0.1) / (1.2816 * both) - 1) < 0.02);
}

BOOST_AUTO_TEST_SUITE_END()
