// Tests that the installed headers are documented, and few.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/places.hpp"

namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

const fs::path source = troupe::places::source_dir;

// Returns the headers in cmake/public_headers.txt.
std::vector<std::string> headers_for_hosts() {
  std::vector<std::string> out;
  for (const auto& line : lines_of(source / "cmake/public_headers.txt"))
    if (!line.empty() && line[0] != '#') out.push_back(line.substr(0, line.find(' ')));
  return out;
}

// Returns the headers for hosts and all headers that they include, directly or indirectly.
std::set<std::string> installed_headers() {
  std::vector<std::string> waiting = headers_for_hosts();
  std::set<std::string> seen;
  static const std::regex include("^#include \"([a-z_]+/[^\"]+)\"");
  while (!waiting.empty()) {
    const std::string header = waiting.back();
    waiting.pop_back();
    if (!seen.insert(header).second) continue;
    BOOST_REQUIRE_MESSAGE(fs::exists(source / header), header << " is installed and does not exist");
    std::smatch m;
    for (const auto& line : lines_of(source / header))
      if (std::regex_search(line, m, include)) waiting.push_back(m[1]);
  }
  return seen;
}

bool begins(const std::string& line, const std::string& head) { return line.rfind(head, 0) == 0; }

// Returns true if the line declares a type or a function at namespace scope. Such a declaration needs a `///` comment
// of its own, or one that it shares with the declarations directly above. Members may be clear from their names;
// private parts and continuation lines are not declarations.
bool declares(const std::string& line) {
  static const std::regex type("^(class|struct|enum class) (\\[\\[\\w+\\]\\] )?\\w+( final)?( : [^;{]+)? \\{");
  static const std::regex function(
      "^(inline |constexpr |static |\\[\\[nodiscard\\]\\] )*[A-Za-z_][\\w:<>,&* ]* [&*]?(\\w+)\\(");
  static const std::regex other(
      "^(typename I(nspector)?::result_type "
      "inspect|return|using|typedef|namespace|template|else|if|for|while|CAF_|#|extern|static_assert)");
  if (line.empty() || line[0] == ' ' || std::regex_search(line, other)) return false;
  return std::regex_search(line, type) || std::regex_search(line, function);
}

bool documented(const std::vector<std::string>& lines, size_t at) {
  if (lines[at].find("///<") != std::string::npos) return true;
  while (at-- > 0) {
    const auto& above = lines[at];
    if (begins(above, "///")) return true;
    if (begins(above, "template") || begins(above, "requires") || begins(above, "  requires")) continue;
    if (begins(above, " ")) continue;  // the line above continues a declaration of several lines
    // Declarations that share one comment follow each other without an empty line.
    if (!declares(above) && !begins(above, "[[")) return false;
  }
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(headers)

BOOST_AUTO_TEST_CASE(every_public_function_and_type_has_a_comment) {
  size_t declarations = 0;
  for (const auto& header : installed_headers()) {
    const auto lines = lines_of(source / header);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!declares(lines[i])) continue;
      ++declarations;
      BOOST_TEST(documented(lines, i), header << ":" << i + 1 << " has no comment: " << lines[i]);
    }
  }
  BOOST_TEST(declarations > 150U);
}

BOOST_AUTO_TEST_CASE(headers_for_hosts_do_not_include_our_internals) {
  const auto all = installed_headers();
  for (const char* inside :
       {"actors/run/training_run.hpp", "actors/step_context.hpp", "actors/rank.hpp", "cluster/supervision.hpp",
        "config/keys/key_info.hpp", "data/corpus.hpp", "formats/torch/archive.hpp", "job/blueprint.hpp",
        "kernels/base/simd-inl.hpp", "plan/check/check.hpp", "telemetry/report/report.hpp"})
    BOOST_TEST(all.count(inside) == 0U, inside);
}

BOOST_AUTO_TEST_CASE(hosts_include_few_headers_and_these_include_few_others) {
  BOOST_TEST(headers_for_hosts().size() <= 17U);
  BOOST_TEST(installed_headers().size() <= 166U);
}

BOOST_AUTO_TEST_CASE(the_page_for_hosts_lists_their_headers_in_order) {
  std::vector<std::string> listed;
  static const std::regex row("^\\| `([a-z_/]+\\.hpp)` \\|.*");
  std::smatch m;
  for (const auto& line : lines_of(source / "docs/embedding.md"))
    if (std::regex_match(line, m, row)) listed.push_back(m[1]);
  BOOST_TEST(listed == headers_for_hosts(), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
