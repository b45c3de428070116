// Tests the decision whether optimizer updates run before the vote (gradient norm and overflow), if the run is to
// decide it.
#include "job/early_updates.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(early_updates)

using troupe::job::undone_steps;

BOOST_AUTO_TEST_CASE(the_order_changes_when_a_window_of_steps_calls_for_the_other) {
  constexpr double worth = 0.5;
  const auto changes = [](bool early, uint32_t undone) {
    undone_steps x;
    bool out = false;
    for (uint32_t k = 0; k < undone_steps::window; ++k) {
      BOOST_TEST_INFO_SCOPE("k " << k);
      BOOST_TEST(!out);  // the decision must not change before the whole window of steps has ended
      out = x.note(k < undone, early, worth);
    }
    return out;
  };
  BOOST_TEST(changes(false, 0));
  BOOST_TEST(changes(false, 2));
  BOOST_TEST(!changes(false, 3));  // three undone steps are more than three quarters of the limit
  BOOST_TEST(!changes(true, 4));
  BOOST_TEST(changes(true, 5));
}

BOOST_AUTO_TEST_CASE(early_updates_are_worth_as_many_undone_steps_as_their_gain_pays_for) {
  using troupe::job::compared_orders;
  const auto close = boost::test_tools::tolerance(1e-12);
  BOOST_TEST((compared_orders{1.0, 0.8, 1.2}.worth()) == 0.5, close);
  BOOST_TEST((compared_orders{1.0, 0.8, 1.6}.worth()) == 0.25, close);
  BOOST_TEST((compared_orders{1.0, 0.8, 0.9}.worth()) == 1.0, close);
  BOOST_TEST((compared_orders{1.0, 1.1, 1.2}.worth()) == 0.0);
}

BOOST_AUTO_TEST_CASE(each_window_counts_its_own_steps) {
  undone_steps x;
  for (uint32_t k = 0; k < undone_steps::window; ++k) (void)x.note(true, false, 0.5);
  bool changed = false;
  for (uint32_t k = 0; k < undone_steps::window; ++k) changed = x.note(false, false, 0.5);
  BOOST_TEST(changed);
}

BOOST_AUTO_TEST_SUITE_END()
