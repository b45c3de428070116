#include "fabric/shared/address_space.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

BOOST_AUTO_TEST_SUITE(address_space)

namespace {

using namespace troupe::fabric;

}  // namespace

BOOST_AUTO_TEST_CASE(every_byte_of_a_segment_has_a_location_and_no_other_byte_has) {
  std::vector<std::byte> memory(300);
  troupe::fabric::address_space space;
  const auto segment = [&](size_t from, size_t count) { return std::span(memory).subspan(from, count); };
  BOOST_REQUIRE(space.add(5, segment(200, 50)));
  BOOST_REQUIRE(space.add(2, segment(20, 80)));
  BOOST_REQUIRE(space.add(9, segment(100, 10)));
  for (size_t i = 0; i < memory.size(); ++i) {
    const auto found = space.locate(&memory[i]);
    const bool inside = (i >= 200 && i < 250) || (i >= 20 && i < 110);
    BOOST_REQUIRE_MESSAGE(found.has_value() == inside, i);
    if (found) BOOST_TEST((space.at(*found) == &memory[i]));
  }
  BOOST_TEST((space.locate(&memory[205]) == location{5, 5}));
  BOOST_TEST((space.locate(&memory[105]) == location{9, 5}));
}

BOOST_AUTO_TEST_CASE(null_lies_nowhere_and_back) {
  const troupe::fabric::address_space space;
  BOOST_TEST((space.locate(nullptr) == location{}));
  BOOST_TEST((space.at(location{}) == nullptr));
  BOOST_TEST((space.at({3, 0}) == nullptr));
}

BOOST_AUTO_TEST_CASE(a_number_or_bytes_that_are_there_already_are_refused) {
  std::vector<std::byte> memory(100);
  troupe::fabric::address_space space;
  BOOST_REQUIRE(space.add(1, std::span(memory).first(50)));
  BOOST_TEST(space.add(1, std::span(memory).last(50)).error().text ==
             "shared segment 1: wanted a new one, got its number twice");
  BOOST_TEST(space.add(2, std::span(memory).subspan(49, 10)).error().text ==
             "shared segment 2: wanted a new one, got bytes of segment 1");
}

BOOST_AUTO_TEST_SUITE_END()
