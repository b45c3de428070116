// Tests the measured peak with which model-FLOPs utilisation is compared. The test supplies the measurements, so the
// result does not depend on a clock.
#include "apps/base/training/measured_peak.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(measured_peak)

using namespace troupe;

namespace {

/// A run on two ranks whose steps take one second; the measurements of the peak come from a list.
struct run {
  explicit run(std::vector<double> measurements)
      : peak([this, measurements] { return measurements.at(measured++); }, 2) {}
  void step() {
    actors::step_report r;
    r.step = ++steps;
    r.seconds = 1;
    r.tokens = 10;
    show.step(r, 0);
    peak.after_step(show, [this](const std::string& line) { said.push_back(line); });
  }

  apps::progress show{apps::output_style::quiet, 100, 10, 1, "nats/token"};
  size_t measured = 0;
  uint64_t steps = 0;
  std::vector<std::string> said;
  apps::measured_peak peak;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_peak_that_steps_stay_below_is_measured_once) {
  run r({100});
  for (int i = 0; i < 5; ++i) r.step();
  BOOST_TEST(r.measured == 1U);
  BOOST_TEST(r.show.use_text() == "MFU 50%");
  BOOST_TEST(r.peak.flops() == 100);
  BOOST_TEST(r.said.empty());
}

BOOST_AUTO_TEST_CASE(a_peak_that_steps_surpass_is_measured_again_until_they_do_not) {
  run r({10, 20, 62.5});
  r.step();
  BOOST_TEST(r.measured == 2U);
  BOOST_TEST(r.show.use_text() == "MFU unknown");
  r.step();
  BOOST_TEST(r.measured == 3U);
  BOOST_TEST(r.show.use_text() == "MFU 80%");
  for (int i = 0; i < 5; ++i) r.step();
  BOOST_TEST(r.measured == 3U);
  BOOST_TEST(r.said.empty());
}

BOOST_AUTO_TEST_CASE(a_smaller_measurement_takes_nothing_away) {
  run r({40, 10, 10, 10});
  for (int i = 0; i < 5; ++i) r.step();
  BOOST_TEST(r.peak.flops() == 40);
}

BOOST_AUTO_TEST_CASE(
    a_machine_that_stays_busy_is_measured_three_times_more_and_the_run_says_once_that_the_use_is_unknown) {
  run r({10, 11, 12, 13});
  for (int i = 0; i < 20; ++i) r.step();
  BOOST_TEST(r.measured == 4U);
  BOOST_TEST(r.show.use_text() == "MFU unknown");
  BOOST_TEST_REQUIRE(r.said.size() == 1U);
  BOOST_TEST(r.said[0].find("MFU is unknown: steps do more than the measured peak") == 0U, r.said[0]);
}

BOOST_AUTO_TEST_CASE(no_use_is_shown_before_a_peak_is_known) {
  const run r({});
  BOOST_TEST(r.show.use_text().empty());
  BOOST_TEST(!r.show.beyond_peak());
}

BOOST_AUTO_TEST_SUITE_END()
