// Tests which of its addresses a machine chooses for a name: the address to which the name resolves; the machine's only
// address if the name resolves to loopback; none if the name resolves to another machine or not at all.
#include "net/own_address.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <set>

BOOST_AUTO_TEST_SUITE(own_address)

using namespace troupe;

namespace {

std::string refusal(const std::string& host) {
  const auto got = net::own_address_as(host);
  BOOST_TEST_REQUIRE(!got.has_value());
  BOOST_TEST((got.error().kind == core::error_kind::bad_input));
  return got.error().text;
}

/// Checks the result for a name that identifies this machine but none of its addresses: the machine's address other
/// than loopback, or an error if it has several interfaces.
void has_the_only_address(const std::string& host) {
  auto all = net::own_addresses();
  std::erase_if(all, [](const auto& a) { return a.is_loopback; });
  std::set<std::string> interfaces;
  for (const auto& a : all) interfaces.insert(a.interface);
  const auto got = net::own_address_as(host);
  if (interfaces.size() == 1)
    BOOST_TEST(got.value_or("") == all.front().address);
  else if (interfaces.size() > 1)
    BOOST_TEST(
        (!got && got.error().text.find("does not select one of this machine's interfaces") != std::string::npos));
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_address_is_taken_as_it_is_and_localhost_is_loopback) {
  BOOST_TEST(net::own_address_as("10.9.8.7").value_or("") == "10.9.8.7");
  BOOST_TEST(net::own_address_as("localhost").value_or("").starts_with("127."));
}

BOOST_AUTO_TEST_CASE(a_name_for_loopback_stands_for_the_only_other_address) {
  has_the_only_address("127.77");  // the address is short for 127.0.0.77
  has_the_only_address("*");
}

BOOST_AUTO_TEST_CASE(this_machines_own_name_is_taken_whether_or_not_it_is_known) {
  std::array<char, 256> name{};
  BOOST_TEST_REQUIRE(::gethostname(name.data(), name.size() - 1) == 0);
  const std::string unknown = std::string(name.data()) + ".troupe-of-nobody.invalid";
  const auto got = net::own_address_as(unknown);
  BOOST_TEST((got || got.error().text.find("does not select one of this machine's interfaces") != std::string::npos));
}

BOOST_AUTO_TEST_CASE(a_name_that_means_nothing_or_another_machine_is_refused) {
  const auto nothing = refusal("nosuchhost.invalid");
  BOOST_TEST(nothing.starts_with("set cluster.interface, or give an address of this machine instead of "
                                 "nosuchhost.invalid, which has no address ("),
             nothing);
  const auto other = refusal("203.0.28931");  // the address is short for 203.0.113.3
  BOOST_TEST(
      other.starts_with("set cluster.interface, or give an address of this machine instead of 203.0.28931, which "
                        "resolves to 203.0.113.3, not an address of this machine; interfaces with an address: "),
      other);
}

BOOST_AUTO_TEST_SUITE_END()
