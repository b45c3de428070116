#include "plan/place/arena.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(arena)

namespace {
using pool = troupe::plan::arena;
using ids = std::vector<uint32_t>;
bool equal(const ids& a, const ids& b) { return a == b; }
}  // namespace

BOOST_AUTO_TEST_CASE(leases_lie_side_by_side_at_64_byte_boundaries) {
  pool a;
  BOOST_TEST(a.take(10).offset == 0U);
  BOOST_TEST(a.take(65).offset == 64U);
  BOOST_TEST(a.take(1).offset == 192U);
  BOOST_TEST(a.peak_bytes() == 256U);
}

BOOST_AUTO_TEST_CASE(bytes_given_back_are_taken_again_after_their_reader) {
  pool a;
  const auto first = a.take(128);
  a.take(64);
  a.give_back(first.offset, 7);
  const auto next = a.take(64);
  BOOST_TEST(next.offset == 0U);
  BOOST_TEST(equal(next.after, {7}));
  const auto rest = a.take(64);
  BOOST_TEST(rest.offset == 64U);
  BOOST_TEST(equal(rest.after, {7}), "what is left of a slot has the same last reader");
  BOOST_TEST(a.peak_bytes() == 192U);
}

BOOST_AUTO_TEST_CASE(a_lease_over_several_free_slots_waits_for_all_their_readers) {
  pool a;
  const auto x = a.take(64), y = a.take(64), z = a.take(64);
  a.give_back(x.offset, 1);
  a.give_back(y.offset, 2);
  a.give_back(z.offset, 3);
  const auto wide = a.take(128);
  BOOST_TEST(wide.offset == 0U);
  BOOST_TEST(equal(wide.after, {1, 2}));
}

BOOST_AUTO_TEST_CASE(a_free_end_grows_instead_of_leaving_a_hole) {
  pool a;
  a.take(64);
  const auto end = a.take(64);
  a.give_back(end.offset, 5);
  const auto wider = a.take(192);
  BOOST_TEST(wider.offset == 64U);
  BOOST_TEST(equal(wider.after, {5}));
  BOOST_TEST(a.peak_bytes() == 256U);
}

BOOST_AUTO_TEST_CASE(fresh_bytes_wait_for_no_reader) {
  pool a;
  BOOST_TEST(a.take(64).after.empty());
}

BOOST_AUTO_TEST_SUITE_END()
