// Tests the conversion of the clocks of a job's machines to the clock of the machine whose process leads.
#include "actors/processes/machine_clocks.hpp"

#include <boost/test/unit_test.hpp>

#include <vector>

BOOST_AUTO_TEST_SUITE(machine_clocks)

using namespace troupe::actors;
using troupe::telemetry::clock_shift;

BOOST_AUTO_TEST_CASE(of_the_processes_of_a_machine_the_surest_counts_and_the_first_machine_has_the_supervisors_clock) {
  const std::vector<told_clock> told = {{0, {7, 90}}, {1, {500, 40}}, {1, {530, 20}}, {2, {-80, 5}}};
  const auto onto_first = shifts_onto(0, clock_shift{3, 4}, told);
  BOOST_TEST(onto_first.size() == 2U);  // the leading machine's processes share its clock and need no conversion
  BOOST_TEST((onto_first.at(1).offset_ns == 530 && onto_first.at(1).error_ns == 20));
  BOOST_TEST((onto_first.at(2).offset_ns == -80 && onto_first.at(2).error_ns == 5));
}

BOOST_AUTO_TEST_CASE(a_process_of_another_machine_that_leads_counts_its_own_clock_too) {
  const auto onto_third = shifts_onto(2, clock_shift{-80, 5}, std::vector<told_clock>{{1, {530, 20}}});
  BOOST_TEST((onto_third.at(0).offset_ns == 80 && onto_third.at(0).error_ns == 5));
  BOOST_TEST((onto_third.at(1).offset_ns == 610 && onto_third.at(1).error_ns == 25));
  BOOST_TEST(shifts_onto(2, std::nullopt, std::vector<told_clock>{{1, {530, 20}}}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
