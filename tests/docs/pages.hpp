// The pages of the documentation as blocks of code with their marks; blocks are compiled and run elsewhere.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace troupe::tests {

/// The text between two lines of ```.
struct block {
  std::string page;
  size_t line = 0;       ///< of the opening ```, from 1
  std::string language;  ///< cpp, cmake, sh, console, yaml, json or text
  /// Comments directly above, which readers do not see: <!-- key: value -->
  std::map<std::string, std::string> marks;
  std::vector<std::string> lines;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string place() const { return page + ":" + std::to_string(line); }
};

std::vector<std::string> lines_of(const std::filesystem::path& file);

/// README.md, CONTRIBUTING.md and docs/*.md; not the benchmarks, which record their own day.
std::vector<std::string> pages();

/// In the order of the page.
std::vector<block> blocks_of(const std::string& page);

/// The texts between `...` in the page's sentences and tables.
std::vector<std::string> inline_code_of(const std::string& page);

}  // namespace troupe::tests
