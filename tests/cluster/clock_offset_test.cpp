// Tests two clocks, one of which is ahead, with beats between them that have random delays: the error of the offset
// that each side computes never exceeds the stated error.
#include "cluster/clock_offset.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <random>

BOOST_AUTO_TEST_SUITE(clock_offset)

using namespace troupe::cluster;

namespace {

constexpr int64_t ms = 1'000'000, s = 1'000 * ms;

}  // namespace

BOOST_AUTO_TEST_CASE(nothing_is_known_before_a_round_trip) {
  troupe::cluster::clock_offset mine, theirs;
  BOOST_TEST(!mine.at(0).has_value());
  theirs.hear(mine.next(1 * s), 9 * s);
  BOOST_TEST(!theirs.at(9 * s).has_value());
  mine.hear(theirs.next(9 * s), 2 * s);
  BOOST_TEST(mine.at(2 * s).has_value());
}

BOOST_AUTO_TEST_CASE(each_end_knows_the_others_clock_within_the_error_that_it_says) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    BOOST_TEST_INFO_SCOPE("round " << round);
    const auto ahead = static_cast<int64_t>(random() % (2000 * s)) - 1000 * s;
    troupe::cluster::clock_offset mine, theirs;
    int64_t now = 5000 * s;  // time of this side's clock in nanoseconds; the other clock is `ahead` of it
    for (int i = 0; i < 20; ++i) {
      BOOST_TEST_INFO_SCOPE("i " << i);
      const auto way = [&] { return static_cast<int64_t>(random() % (i % 7 == 3 ? 200 * ms : 2 * ms)); };
      const auto out = mine.next(now);
      now += way();
      theirs.hear(out, now + ahead);
      now += static_cast<int64_t>(random() % s);  // the other side sends its answer with a delay
      const auto back = theirs.next(now + ahead);
      now += way();
      mine.hear(back, now);
      const auto known = mine.at(now);
      BOOST_TEST_REQUIRE(known.has_value());
      BOOST_TEST(std::abs(known->offset_ns - ahead) <= known->error_ns);
      if (const auto other = theirs.at(now + ahead)) BOOST_TEST(std::abs(other->offset_ns + ahead) <= other->error_ns);
    }
    BOOST_TEST(mine.at(now)->error_ns < 3 * ms);
    // The error must grow with time, because clocks drift apart.
    BOOST_TEST(mine.at(now + 1000 * s)->error_ns > 40 * ms);
  }
}

BOOST_AUTO_TEST_CASE(beats_that_are_no_round_trip_change_nothing) {
  troupe::cluster::clock_offset mine;
  for (const beat& b :
       {beat{}, beat{5 * s, 0, 0}, beat{5 * s, 4 * s, 9 * s}, beat{4 * s, 5 * s, 1 * s}, beat{9 * s, 1 * s, 1 * s}})
    mine.hear(b, 2 * s);
  BOOST_TEST(!mine.at(2 * s).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
