// Tests that docs/gpu.md claims no more about hardware than a dated page shows.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(gpu)

namespace {

std::string text_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::filesystem::path docs() { return std::filesystem::path(troupe::places::source_dir) / "docs"; }

/// True if the table of results that tests/gpu/check.py writes has a part that passed.
bool shows(const std::string& page, const std::string& part) {
  return page.find("\n| " + part + " | passed |\n") != std::string::npos;
}

/// Returns the names and texts of the pages that tests/gpu/check.py has written.
std::map<std::string, std::string> dated_pages() {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(docs() / "benchmarks"))
    if (const std::string name = entry.path().filename().string(); name.starts_with("gpu-"))
      out[name] = text_in(entry.path());
  return out;
}

bool is_shown(const std::string& part) {
  const auto all = dated_pages();
  return std::ranges::any_of(all, [&](const auto& page) { return shows(page.second, part); });
}

/// Returns the cells of the table row in `page` whose first cell is `first`; empty if the page has no such row.
std::vector<std::string> row_of(const std::string& page, const std::string& first) {
  const size_t begin = page.find("\n| " + first + " | ");
  std::vector<std::string> out;
  if (begin == std::string::npos) return out;
  const std::string line = page.substr(begin + 1, page.find('\n', begin + 1) - begin - 1);
  for (size_t at = 0, next = 0; (next = line.find(" |", at + 1)) != std::string::npos; at = next + 1)
    out.push_back(line.substr(at + 2, next - at - 2));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_page_shows_sessions_only_where_their_part_passed) {
  const std::string head = "| part | result |\n| --- | --- |\n| kernels | passed |\n";
  BOOST_TEST(shows(head + "| sessions | passed |\n", "sessions"));
  for (const char* result : {"**failed**: tests_gpu sessions: code 201", "not run", "left out: no tool"})
    BOOST_TEST(!shows(head + "| sessions | " + result + " |\n| losses | passed |\n", "sessions"), result);
}

BOOST_AUTO_TEST_CASE(sessions_are_said_to_have_run_on_a_gpu_only_where_a_page_shows_it) {
  const std::string said = text_in(docs() / "gpu.md");
  for (const auto& [name, text] : dated_pages())
    BOOST_TEST(said.find("benchmarks/" + name) != std::string::npos, "docs/gpu.md does not mention " << name);
  const bool denied = said.find("Sessions have never run on a GPU; speed is unknown.") != std::string::npos;
  BOOST_TEST(is_shown("sessions") != denied);
}

// The cell of a part on a GPU is `never` exactly as long as no page shows the part of `make gpu-check` that runs it.
BOOST_AUTO_TEST_CASE(a_part_is_said_to_have_run_on_a_gpu_only_where_a_page_shows_it) {
  const std::string said = text_in(docs() / "gpu.md");
  const std::vector<std::string> head = {"part", "compiled", "on the host", "far device", "late device", "on a GPU"};
  BOOST_TEST(row_of(said, "part") == head, boost::test_tools::per_element());
  const std::map<std::string, std::string> shown_by = {{"kernels of layers", "kernels"},
                                                       {"memory, streams, events (`device/cuda/`)", "sessions"},
                                                       {"products, attention (`models/cuda/`)", "sessions"},
                                                       {"sessions: stages, ranks, types, tiers, saves", "sessions"}};
  for (const auto& [row, part] : shown_by) BOOST_TEST_CONTEXT(row) {
      const auto cells = row_of(said, row);
      BOOST_TEST_REQUIRE(cells.size() == head.size());
      BOOST_TEST((cells.back() == "never") == !is_shown(part));
    }
}

BOOST_AUTO_TEST_SUITE_END()
