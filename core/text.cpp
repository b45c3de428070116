#include "core/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace troupe::core {

std::string range_text(std::string_view thing, uint64_t first, uint64_t count) {
  if (count == 1) return fmt::format("{} {}", thing, first);
  return fmt::format("{}s {} to {}", thing, first, first + count - 1);
}

namespace {

std::string with_escapes(std::string_view text, std::string_view kept) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = utf8_character(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    const uint32_t code = bytes == 0 ? byte : utf8_code(text);
    if (bytes == 1 && kept.find(text[0]) != kept.npos)
      out += text[0];
    else if (text[0] == '\n' || text[0] == '\r' || text[0] == '\t')
      out += text[0] == '\n' ? "\\n" : text[0] == '\r' ? "\\r" : "\\t";
    else if (bytes < 2 && (bytes == 0 || is_unprintable(code)))
      out += fmt::format("\\x{:02x}", code);
    else if (is_unprintable(code))
      out += code > 0xFFFF ? fmt::format("\\U{:08x}", code) : fmt::format("\\u{:04x}", code);
    else
      out += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out;
}

}  // namespace

std::string printable_line(std::string_view text) { return with_escapes(text, ""); }

std::string printable_lines(std::string_view text) { return with_escapes(text, "\n\t"); }

size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

}  // namespace troupe::core
