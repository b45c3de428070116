// Tests that the newest version in CHANGELOG.md is the version of this build, and that it lists the formats which this
// version writes.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>

#include "checkpoint/native/manifest.hpp"
#include "formats/source/shard_header.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(changelog)

BOOST_AUTO_TEST_CASE(the_newest_version_is_the_one_that_is_built_with_the_formats_that_it_writes) {
  std::ifstream in((std::string(troupe::places::source_dir) + "/CHANGELOG.md"));
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  const auto at = all.find("\n## ");
  BOOST_TEST_REQUIRE(at != std::string::npos);
  const std::string newest = all.substr(at + 4, all.find("\n## ", at + 4) - at);
  BOOST_TEST(newest.substr(0, newest.find('\n')) == TROUPE_VERSION);
  for (const auto& said : {fmt::format("checkpoint manifest {}", troupe::checkpoint::manifest_version),
                           fmt::format("shard {}", troupe::formats::shard_version)})
    BOOST_TEST(newest.find(said) != std::string::npos, said);
}

BOOST_AUTO_TEST_SUITE_END()
