// Installs the tree, moves it, and uses it from a project outside of it while the checkout and LibTorch's folder are
// hidden: examples/embedding is configured, built and run with it (installed.sh).
#pragma once

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <string>

#include "tests/apps/process.hpp"
#include "tests/places.hpp"

namespace troupe::tests {

/// Checks one part of the project, `programs` or `modules`. The folder of each part and build always has the same path,
/// because the compiler's cache recognises files only by their paths.
inline void check_installed(const std::string& part) {
  const auto build = fmt::to_string(std::hash<std::string>()(places::build_dir));
  const auto scratch = std::filesystem::temp_directory_path() / ("troupe-installed-" + part + "-" + build);
  process p({"/bin/sh", std::string(places::source_dir) + "/tests/embedding/installed.sh", part, places::source_dir,
             places::build_dir, places::torch_dir, scratch.string(), TROUPE_VERSION, TROUPE_FLAGS},
            "/");
  const auto end = p.end(std::chrono::seconds(840));
  BOOST_TEST_MESSAGE(end.out);
  BOOST_TEST(end.code == 0, end.out << end.err);
  BOOST_TEST(end.out.find("everything ran") != std::string::npos);
  std::filesystem::remove_all(scratch);
}

}  // namespace troupe::tests
