// Reads the merges in a merges.txt, line by line. Skips the byte order mark, the version line, empty lines and Windows
// line ends. Any other line that begins with # is a merge.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe::data {

class merge_lines {
 public:
  explicit merge_lines(std::string_view text) : rest_(text) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  }

  /// Returns the text of the next merge, `left right`; nullopt at the end.
  std::optional<std::string_view> next() {
    while (!rest_.empty()) {
      ++number_;
      const size_t end = rest_.find('\n');
      auto line = rest_.substr(0, end);
      is_cut_ = end == std::string_view::npos;
      rest_.remove_prefix(is_cut_ ? rest_.size() : end + 1);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty() && !(number_ == 1 && line.starts_with("#version"))) return line;
    }
    return std::nullopt;
  }

  /// Returns the number of the line that next() returned last, from 1.
  [[nodiscard]] uint64_t number() const { return number_; }
  /// True if the line that next() returned last has no line end.
  [[nodiscard]] bool is_cut() const { return is_cut_; }

 private:
  std::string_view rest_;
  uint64_t number_ = 0;
  bool is_cut_ = false;
};

}  // namespace troupe::data
