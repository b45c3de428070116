// The second half of the drawn jobs on late streams: the results have the CPU's bits in any order that streams and
// events allow.
#include "tests/far/orders.hpp"

BOOST_AUTO_TEST_SUITE(further_orders)

using namespace troupe::tests;

BOOST_AUTO_TEST_CASE(whatever_the_order_of_streams_the_bits_are_those_of_the_cpu_or_of_prompt_streams) {
  check_orders(1);
}

BOOST_AUTO_TEST_SUITE_END()
