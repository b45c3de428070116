// Installs the tree, moves it, and uses it from a project outside of it while the checkout and LibTorch's folder are
// hidden: examples/embedding is configured, built and run with it, and the installed command is run.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>

#include "tests/apps/process.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(installed)

namespace {

constexpr std::chrono::seconds limit{840};

// Returns a folder of this build whose path is always the same, because the compiler's cache recognises files only by
// their paths.
std::filesystem::path scratch() {
  const auto of_build = std::to_string(std::hash<std::string>()(troupe::places::build_dir));
  return std::filesystem::temp_directory_path() / ("troupe-installed-" + of_build);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_project_outside_the_tree_builds_and_runs_with_checkout_and_torch_out_of_reach) {
  troupe::tests::process p({"/bin/sh", (std::string(troupe::places::source_dir) + "/tests/embedding/installed.sh"), troupe::places::source_dir,
                            troupe::places::build_dir, troupe::places::torch_dir, scratch().string(), TROUPE_VERSION, TROUPE_FLAGS},
                           "/");
  const auto end = p.end(limit);
  BOOST_TEST_MESSAGE(end.out);
  BOOST_TEST(end.code == 0, end.out << end.err);
  BOOST_TEST(end.out.find("everything ran") != std::string::npos);
  std::filesystem::remove_all(scratch());
}

BOOST_AUTO_TEST_SUITE_END()
