// Tests the installed tree with the programs of examples/embedding that include no header of Torch, and the installed
// command.
#include "tests/embedding/installed.hpp"

BOOST_AUTO_TEST_SUITE(installed)

BOOST_AUTO_TEST_CASE(a_project_outside_the_tree_builds_and_runs_with_checkout_and_torch_out_of_reach) {
  troupe::tests::check_installed("programs");
}

BOOST_AUTO_TEST_SUITE_END()
