// Tests that docs/gpu.md claims no more about hardware than a dated page shows.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(gpu)

BOOST_AUTO_TEST_CASE(sessions_are_said_to_have_run_on_a_gpu_only_where_a_page_shows_it) {
  const std::filesystem::path docs = std::filesystem::path(troupe::places::source_dir) / "docs";
  const std::filesystem::directory_iterator all(docs / "benchmarks");
  const bool shown = std::any_of(
      begin(all), end(all), [](const auto& entry) { return entry.path().filename().string().starts_with("gpu-"); });
  std::ifstream in(docs / "gpu.md");
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  const bool denied = page.find("Sessions have never run on a GPU; speed is unknown.") != std::string::npos;
  BOOST_TEST(shown != denied);
}

BOOST_AUTO_TEST_SUITE_END()
