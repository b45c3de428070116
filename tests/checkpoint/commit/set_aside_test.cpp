// Tests the names of folders to which checkpoints are set aside.
#include "checkpoint/commit/set_aside.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(set_aside)

using namespace troupe::checkpoint;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_CASE(a_place_aside_names_its_origin) {
  for (const fs::path root : {"/runs/a/checkpoints", "checkpoints", "/runs/a.2/my.checkpoints"})
    for (const uint32_t n : {1U, 10U, 1000U}) BOOST_TEST((origin_of_place_aside(place_aside(root, n)) == root));
  BOOST_TEST((place_aside("runs/checkpoints", 1) == fs::path("runs/checkpoints.1")));
}

BOOST_AUTO_TEST_CASE(another_name_has_no_origin) {
  for (const char* name :
       {"checkpoints", "checkpoints.", "checkpoints.old", "checkpoints.1x", "checkpoints.-1", ".1", "1"})
    BOOST_TEST(origin_of_place_aside(fs::path("/runs") / name).empty(), name);
}

BOOST_AUTO_TEST_SUITE_END()
