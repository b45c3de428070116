// Splits the pages of the documentation into blocks of code with their marks. Other tests compile and run the blocks.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace troupe::tests {

/// Text between two lines of ``` on a page.
struct block {
  std::string page;
  size_t line = 0;       ///< number of the line with the opening ```, counted from 1
  std::string language;  ///< language of the block: cpp, cmake, sh, console, yaml, json or text
  /// Values by key from the comments directly above the block, <!-- key: value -->, which readers do not see.
  std::map<std::string, std::string> marks;
  std::vector<std::string> lines;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string place() const { return fmt::format("{}:{}", page, line); }
};

std::vector<std::string> lines_of(const std::filesystem::path& file);

/// Returns README.md, CONTRIBUTING.md and docs/*.md, but not the pages of benchmark results, which are not updated.
std::vector<std::string> pages();

/// Returns the blocks of a page in the page's order.
std::vector<block> blocks_of(const std::string& page);

/// Returns the texts between single backquotes in the page's sentences and tables.
std::vector<std::string> inline_code_of(const std::string& page);

}  // namespace troupe::tests
