// Tests what is measured of this machine, not how fast it is.
#include "actors/rates/measured_rates.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "actors/rates/core_team.hpp"
#include "plan/choose/machine_costs.hpp"
#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(measured_rates)

using namespace troupe;
using tests::check_failed;
using tests::check_ok;

BOOST_AUTO_TEST_CASE(every_constant_of_both_types_is_measured_with_its_middle_half) {
  std::set<std::string> told;
  const auto measured = *check_ok(actors::measure_rates(
      2, [&](const std::string& what) { told.insert(what); }, 1e-3));
  BOOST_TEST(told.contains("copies"));
  BOOST_TEST(told.contains("attention in bf16"));
  BOOST_TEST(measured.share_of_others >= 0);
  BOOST_TEST(measured.share_of_others <= 1);
  BOOST_TEST(measured.took_s > 0);
  BOOST_TEST_REQUIRE(measured.types.size() == 2U);
  for (const auto& type : measured.types)
    for (const auto& c : plan::machine_constants()) {
      const double lower = type.lower.*c.field, median = type.median.*c.field, upper = type.upper.*c.field;
      BOOST_TEST_INFO_SCOPE(c.name << ": " << lower << ", " << median << ", " << upper);
      BOOST_TEST((std::isfinite(lower) && std::isfinite(upper)));
      BOOST_TEST((lower <= median && median <= upper));
      BOOST_TEST((c.divides ? lower > 0 : lower >= 0));
    }
}

BOOST_AUTO_TEST_CASE(an_operation_is_made_once_on_each_thread_and_repeated_at_least_three_times) {
  std::atomic<int> made = 0, called = 0;
  const auto seconds = *check_ok(actors::repeated_on_cores(3, 0, [&]() -> std::function<void()> {
    ++made;
    return [&] { ++called; };
  }));
  BOOST_TEST(made == 3);
  BOOST_TEST(called == 3 * (1 + 3));  // a repetition that is not timed, and three that are
  BOOST_TEST(seconds.size() == 9U);
  BOOST_TEST(std::ranges::is_sorted(seconds));
}

BOOST_AUTO_TEST_CASE(an_operation_that_fails_on_a_thread_is_an_error_and_no_thread_waits_for_it) {
  std::atomic<int> made = 0;
  const auto first_fails = actors::repeated_on_cores(2, 0, [&]() -> std::function<void()> {
    if (made++ == 0) throw std::runtime_error("no room");
    return [] {};
  });
  check_failed(first_fails, core::error_kind::limit, "no room");
  const auto later_fails = actors::repeated_on_cores(1, 0, [&]() -> std::function<void()> {
    return [calls = 0]() mutable {
      if (++calls == 3) throw std::bad_alloc();
    };
  });
  check_failed(later_fails, core::error_kind::limit, "1 cores");
}

BOOST_AUTO_TEST_CASE(the_middle_half_is_between_the_quartiles) {
  const auto five = actors::middle_of({1, 2, 3, 4, 5});
  BOOST_TEST(five.lower == 2.0);
  BOOST_TEST(five.median == 3.0);
  BOOST_TEST(five.upper == 4.0);
  const auto one = actors::middle_of({7});
  BOOST_TEST(one.lower == 7.0);
  BOOST_TEST(one.upper == 7.0);
}

BOOST_AUTO_TEST_SUITE_END()
