// Checks that the log of refused connections does not grow with their number.
#include "apps/agent/refusal_log.hpp"

#include <boost/test/unit_test.hpp>

#include <vector>

BOOST_AUTO_TEST_SUITE(refusal_log)

using namespace troupe::apps;

BOOST_AUTO_TEST_CASE(some_refusals_a_minute_are_said_and_the_others_counted) {
  std::vector<std::string> said;
  troupe::apps::refusal_log log([&](const std::string& line) { said.push_back(line); });
  for (int i = 0; i < 1500; ++i) log.add("no certificate", i);
  BOOST_TEST(said.size() == refusals_said_max + 1);
  BOOST_TEST(said.front() == "refused: no certificate");
  BOOST_TEST(said.back() == "refused: further ones in this minute are counted but not shown");
  said.clear();
  log.add("a foreign one", 61'000'000'000);
  const std::vector<std::string> wanted = {"refused: 1490 more in the minutes before", "refused: a foreign one"};
  BOOST_TEST(said == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
