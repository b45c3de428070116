// Tests that a long training curve is reduced to bounded memory and keeps its extremes.
#include "telemetry/report/thinned_series.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

BOOST_AUTO_TEST_SUITE(thinned_series)

using namespace troupe::telemetry;

BOOST_AUTO_TEST_CASE(a_short_curve_keeps_every_value) {
  troupe::telemetry::thinned_series s;
  for (size_t i = 0; i < series_bins_limit; ++i) s.add(double(i), double(i * i));
  BOOST_TEST_REQUIRE(s.bins().size() == series_bins_limit);
  for (size_t i = 0; i < series_bins_limit; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    BOOST_TEST(s.bins()[i].count == 1U);
    BOOST_TEST(s.bins()[i].mean() == double(i * i));
  }
  BOOST_TEST(s.values_per_bin() == 1U);
}

BOOST_AUTO_TEST_CASE(a_long_curve_keeps_its_spikes_its_sum_and_its_ends) {
  for (const uint64_t n : {513U, 1024U, 1025U, 100'000U}) {
    BOOST_TEST_INFO_SCOPE("n " << n);
    troupe::telemetry::thinned_series s;
    double sum = 0;
    for (uint64_t i = 0; i < n; ++i) {
      const double y = i == n / 3 ? 1e6 : i == n / 2 ? -1e6 : std::sin(double(i));
      sum += y;
      s.add(double(i), y);
    }
    BOOST_TEST(s.bins().size() <= series_bins_limit);
    BOOST_TEST(s.bins().size() > series_bins_limit / 2 - 1);
    uint64_t count = 0;
    double least = 0, greatest = 0, kept = 0, x = -1;
    for (const auto& b : s.bins()) {
      BOOST_TEST(b.first_x > x);
      BOOST_TEST(b.least_x >= b.first_x);
      BOOST_TEST(b.greatest_x <= b.last_x);
      x = b.last_x;
      count += b.count;
      kept += b.sum;
      least = std::min(least, b.least);
      greatest = std::max(greatest, b.greatest);
    }
    BOOST_TEST(count == n);
    BOOST_TEST(s.bins().front().first_x == 0.0);
    BOOST_TEST(x == double(n - 1));
    BOOST_TEST(least == -1e6);
    BOOST_TEST(greatest == 1e6);
    BOOST_TEST(std::abs(kept - sum) < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(a_curve_that_is_cut_ends_there_and_continues) {
  troupe::telemetry::thinned_series s;
  s.cut(0);
  BOOST_TEST(s.empty());
  for (int i = 1; i <= 5; ++i) s.add(i, 10 * i);
  s.cut(3);
  BOOST_TEST(s.bins().size() == 3U);
  BOOST_TEST(s.last() == 30.0);
  s.add(4, 7);
  BOOST_TEST(s.bins().back().first_x == 4.0);
  BOOST_TEST(s.last() == 7.0);
  troupe::telemetry::thinned_series joined;
  for (size_t i = 0; i < 2 * series_bins_limit; ++i) joined.add(double(i), double(i));
  joined.cut(100);
  BOOST_TEST(joined.bins().back().last_x == 100.0);
  BOOST_TEST(joined.bins().back().greatest_x == 100.0);
  joined.cut(-1);
  BOOST_TEST(joined.empty());
}

BOOST_AUTO_TEST_CASE(nan_and_infinity_are_counted_and_left_out) {
  troupe::telemetry::thinned_series s;
  s.add(1, NAN);
  BOOST_TEST(s.empty());
  s.add(2, 5);
  s.add(3, INFINITY);
  BOOST_TEST(s.num_not_finite() == 2U);
  BOOST_TEST(s.num_values() == 1U);
  BOOST_TEST(s.last() == 5.0);
}

BOOST_AUTO_TEST_SUITE_END()
