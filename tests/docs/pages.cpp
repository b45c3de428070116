#include "tests/docs/pages.hpp"
#include "tests/places.hpp"

#include <algorithm>
#include <fstream>
#include <regex>
#include <utility>

namespace troupe::tests {
namespace {

namespace fs = std::filesystem;

const fs::path source = troupe::places::source_dir;

bool fence(const std::string& line) { return line.starts_with("```"); }

}  // namespace

std::string block::text() const {
  std::string out;
  for (const auto& line : lines) out += line + "\n";
  return out;
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::vector<std::string> pages() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(source / "docs"))
    if (entry.path().extension() == ".md") out.push_back("docs/" + entry.path().filename().string());
  std::ranges::sort(out);
  out.insert(out.begin(), {"README.md", "CONTRIBUTING.md"});
  return out;
}

std::vector<block> blocks_of(const std::string& page) {
  static const std::regex comment("<!-- ([a-z ]+): (.*) -->");
  std::vector<block> out;
  block next;
  bool inside = false;
  const auto lines = lines_of(source / page);
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch m;
    if (inside && fence(lines[i])) {
      out.push_back(std::exchange(next, {}));
      inside = false;
    } else if (inside) {
      next.lines.push_back(lines[i]);
    } else if (fence(lines[i])) {
      inside = true;
      next.page = page;
      next.line = i + 1;
      next.language = lines[i].substr(3);
    } else if (std::regex_match(lines[i], m, comment)) {
      next.marks[m[1]] = m[2];
    } else {
      next.marks.clear();
    }
  }
  return out;
}

std::vector<std::string> inline_code_of(const std::string& page) {
  static const std::regex code("`([^`]+)`");
  std::vector<std::string> out;
  bool inside = false;
  for (const auto& line : lines_of(source / page)) {
    if (fence(line)) inside = !inside;
    if (inside) continue;
    for (std::sregex_iterator it(line.begin(), line.end(), code), end; it != end; ++it) out.push_back((*it)[1]);
  }
  return out;
}

}  // namespace troupe::tests
