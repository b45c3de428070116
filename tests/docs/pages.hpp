// Reads the pages of the documentation as blocks of code with their marks; leaves compiling and running the blocks to
// other tests.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace troupe::tests {

/// Text between two lines of ``` on a page.
struct block {
  std::string page;
  size_t line = 0;       ///< line of the opening ```, from 1
  std::string language;  ///< one of cpp, cmake, sh, console, yaml, json and text
  /// Comments directly above the block, which readers do not see: <!-- key: value -->
  std::map<std::string, std::string> marks;
  std::vector<std::string> lines;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string place() const { return page + ":" + std::to_string(line); }
};

std::vector<std::string> lines_of(const std::filesystem::path& file);

/// Returns README.md, CONTRIBUTING.md and docs/*.md, without the benchmarks, which record the state of their day.
std::vector<std::string> pages();

/// Returns the blocks of a page, in their order.
std::vector<block> blocks_of(const std::string& page);

/// Returns the texts between single backquotes in the page's sentences and tables.
std::vector<std::string> inline_code_of(const std::string& page);

}  // namespace troupe::tests
