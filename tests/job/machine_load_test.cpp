#include "job/machine_load.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(machine_load)

using namespace troupe;

namespace {

// user, nice, system, idle, waiting, interrupts, soft interrupts, stolen, guest, nice guest
constexpr const char* stat =
    "cpu  1000 200 300 4000 500 10 20 70 30 40\n"
    "cpu0 1 1 1 1 1 1 1 1 1 1\nintr 1 2 3\n";

}  // namespace

BOOST_AUTO_TEST_CASE(time_of_other_guests_is_busy_and_waiting_for_devices_is_idle) {
  const auto times = job::processor_times_in(stat, 100);
  BOOST_TEST_REQUIRE(times.has_value());
  BOOST_TEST(times->busy_s == 16.0);
  BOOST_TEST(times->all_s == 61.0);
}

BOOST_AUTO_TEST_CASE(a_text_without_the_line_of_all_cores_has_no_times) {
  for (const char* text : {"", "cpu0 1 2 3 4 5\n", "cpu  1 2 3\n", "cpu  1 2 three 4 5 6\n", "intr 1 2 3 4 5\n"})
    BOOST_TEST(!job::processor_times_in(text, 100).has_value(), text);
  BOOST_TEST(!job::processor_times_in(stat, 0).has_value());
}

BOOST_AUTO_TEST_CASE(others_have_the_busy_time_that_is_not_ones_own) {
  const job::processor_times before{100, 1000}, after{112, 1020};
  BOOST_TEST(job::share_of_others(before, after, 10) == 0.1, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(job::share_of_others(before, after, 12) == 0.0);
  BOOST_TEST(job::share_of_others(before, after, 13) == 0.0);
  BOOST_TEST(job::share_of_others(before, before, 0) == 0.0);
}

BOOST_AUTO_TEST_SUITE_END()
