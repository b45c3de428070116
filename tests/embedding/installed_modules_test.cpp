// Tests the installed tree with the programs of examples/embedding that train modules of their own.
#include "tests/embedding/installed.hpp"

BOOST_AUTO_TEST_SUITE(installed_modules)

BOOST_AUTO_TEST_CASE(a_project_with_modules_of_its_own_builds_and_runs_with_checkout_and_torch_out_of_reach) {
  troupe::tests::check_installed("modules");
}

BOOST_AUTO_TEST_SUITE_END()
