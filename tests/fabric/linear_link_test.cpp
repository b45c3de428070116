// Tests the times of a communicator's operations by kind and bytes.
#include "fabric/linear_link.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <vector>

BOOST_AUTO_TEST_SUITE(linear_link)

using namespace troupe;

BOOST_AUTO_TEST_CASE(known_sizes_are_exact_and_others_are_on_lines) {
  fabric::time_curve curve;
  BOOST_TEST(curve.duration_ns(5) == 0);
  curve.add(100, 1000);
  BOOST_TEST(curve.duration_ns(0) == 1000);
  BOOST_TEST(curve.duration_ns(900) == 1000);
  curve.add(200, 1500);
  curve.add(400, 1600);
  curve.add(400, 1550);  // the longer time of a size counts
  BOOST_TEST(curve.duration_ns(50) == 1000);
  BOOST_TEST(curve.duration_ns(100) == 1000);
  BOOST_TEST(curve.duration_ns(150) == 1250);
  BOOST_TEST(curve.duration_ns(200) == 1500);
  BOOST_TEST(curve.duration_ns(300) == 1550);
  BOOST_TEST(curve.duration_ns(400) == 1600);
  BOOST_TEST(curve.duration_ns(600) == 1700);
  curve.slow(2, 10);
  BOOST_TEST(curve.duration_ns(100) == 2010);
  BOOST_TEST(curve.duration_ns(400) == 3210);
  curve.slow(1e300, 0);
  BOOST_TEST(curve.duration_ns(400) == 1'000'000'000'000'000'000);
}

BOOST_AUTO_TEST_CASE(each_kind_has_its_curve_and_one_without_takes_the_longest_time) {
  fabric::operation_curves curves;
  curves[fabric::operation::all_gather].add(0, 10);
  curves[fabric::operation::all_gather].add(24, 20);
  curves[fabric::operation::all_reduce].add(0, 30);
  const std::vector<fabric::piece> pieces{{.owner = 0, .from = 0, .to = 0, .count = 3},
                                          {.owner = 1, .from = 0, .to = 3, .count = 6}};
  fabric::request r;
  r.op = fabric::operation::all_gather;
  r.pieces = pieces;
  BOOST_TEST(fabric::duration_ns(curves, r, 2) == 20);  // member 0 receives 6 elements
  r.op = fabric::operation::all_reduce;
  BOOST_TEST(fabric::duration_ns(curves, r, 2) == 30);
  BOOST_TEST(fabric::duration_ns(curves, {}, 2) == 30);  // an empty barrier
}

BOOST_AUTO_TEST_SUITE_END()
