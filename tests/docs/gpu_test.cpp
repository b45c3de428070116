// Tests that docs/gpu.md claims no more about hardware than a dated page shows.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(gpu)

namespace {

std::string text_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// True if the table of results that tests/gpu/check.py writes has sessions that passed.
bool shows_sessions(const std::string& page) { return page.find("\n| sessions | passed |\n") != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_page_shows_sessions_only_where_their_part_passed) {
  const std::string head = "| part | result |\n| --- | --- |\n| kernels | passed |\n";
  BOOST_TEST(shows_sessions(head + "| sessions | passed |\n"));
  for (const char* result : {"**failed**: tests_gpu sessions: code 201", "not run", "left out: no tool"})
    BOOST_TEST(!shows_sessions(head + "| sessions | " + result + " |\n| losses | passed |\n"), result);
}

BOOST_AUTO_TEST_CASE(sessions_are_said_to_have_run_on_a_gpu_only_where_a_page_shows_it) {
  const std::filesystem::path docs = std::filesystem::path(troupe::places::source_dir) / "docs";
  const std::string said = text_in(docs / "gpu.md");
  bool shown = false;
  for (const auto& entry : std::filesystem::directory_iterator(docs / "benchmarks")) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("gpu-")) continue;
    BOOST_TEST(said.find("benchmarks/" + name) != std::string::npos, "docs/gpu.md does not mention " << name);
    shown = shown || shows_sessions(text_in(entry.path()));
  }
  const bool denied = said.find("Sessions have never run on a GPU; speed is unknown.") != std::string::npos;
  BOOST_TEST(shown != denied);
}

BOOST_AUTO_TEST_SUITE_END()
