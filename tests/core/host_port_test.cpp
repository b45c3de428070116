#include "core/host_port.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(host_port)

using troupe::core::read_host_port;

BOOST_AUTO_TEST_CASE(names_and_addresses_of_both_kinds_are_read) {
  for (const auto& [text, host] :
       {std::pair{"node-1:4000", "node-1"}, {"10.0.0.1:4000", "10.0.0.1"}, {"[::1]:4000", "::1"}}) {
    const auto got = read_host_port(text);
    BOOST_TEST_REQUIRE(got.has_value(), text);
    BOOST_TEST(got->host == host);
    BOOST_TEST(got->port == 4000);
  }
}

BOOST_AUTO_TEST_CASE(what_leaves_host_or_port_open_is_none) {
  for (const char* text : {"", "host", "host:", ":4000", "host:0", "host:65536", "host:4x", "::1:4000", "host:-1"})
    BOOST_TEST(!read_host_port(text).has_value(), text);
}

BOOST_AUTO_TEST_SUITE_END()
