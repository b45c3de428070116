// Tests that processes of a job get adjacent processor cores, and that each core is assigned exactly once.
#include "apps/run/processor_shares.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

BOOST_AUTO_TEST_SUITE(processor_shares)

using namespace troupe::apps;

BOOST_AUTO_TEST_CASE(shares_follow_packages_then_cores) {
  const std::string machine = "package:2 core:4 pu:2";
  const auto two = troupe::apps::processor_shares(2, machine);
  BOOST_REQUIRE(two.size() == 2U);
  BOOST_TEST((two[0] == std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  BOOST_TEST((two[1] == std::vector<uint32_t>{8, 9, 10, 11, 12, 13, 14, 15}));
  const auto eight = troupe::apps::processor_shares(8, machine);
  BOOST_REQUIRE(eight.size() == 8U);
  std::set<uint32_t> all;
  for (const auto& share : eight) {
    BOOST_TEST(share.size() == 2U);
    BOOST_TEST(share[1] == share[0] + 1);  // the share consists of both hardware threads of a core
    all.insert(share.begin(), share.end());
  }
  BOOST_TEST(all.size() == 16U);
}

BOOST_AUTO_TEST_CASE(no_number_of_processes_leaves_a_share_empty_or_shared) {
  for (uint32_t n = 1; n <= 8; ++n) {
    const auto shares = troupe::apps::processor_shares(n, "package:2 core:4 pu:2");
    BOOST_REQUIRE(shares.size() == n);
    std::set<uint32_t> all;
    size_t sum = 0;
    for (const auto& share : shares) {
      BOOST_TEST(!share.empty());
      sum += share.size();
      all.insert(share.begin(), share.end());
    }
    BOOST_TEST(all.size() == sum, n << " processes");
  }
}

BOOST_AUTO_TEST_CASE(too_few_processors_are_left_to_the_system) {
  BOOST_TEST(troupe::apps::processor_shares(9, "package:2 core:4 pu:2").empty());
  BOOST_TEST(troupe::apps::processor_shares(2, "core:2 pu:1").empty());
  BOOST_TEST(troupe::apps::processor_shares(0).empty());
}

BOOST_AUTO_TEST_SUITE_END()
