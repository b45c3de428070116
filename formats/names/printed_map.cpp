#include "formats/names/printed_map.hpp"
#include "core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace troupe::formats {
namespace {

constexpr std::string_view any_number = "(\\d+)";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// Index of the first character, and index past the last one, of a name component that is a number.
using span_of_number = std::pair<size_t, size_t>;
std::vector<span_of_number> numbers_in(const std::string& name) {
  std::vector<span_of_number> out;
  for (size_t i = 0; i < name.size();) {
    const size_t end = std::min(name.find('.', i), name.size());
    if (end > i &&
        std::all_of(name.begin() + static_cast<ptrdiff_t>(i), name.begin() + static_cast<ptrdiff_t>(end), is_digit))
      out.emplace_back(i, end);
    i = end + 1;
  }
  return out;
}

/// Returns an RE2 pattern that matches exactly `text`.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (!is_word(c) && static_cast<unsigned char>(c) < 0x80) out += '\\';
    out += c;
  }
  return out;
}

/// Returns the right side of a `--map` rule whose result is exactly `text`.
std::string rewrite_of(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\\' ? "\\\\" : std::string(1, c);
  return out;
}

struct row {
  std::string left, right;
  auto operator<=>(const row&) const = default;
};

row plain_row(const std::string& from, const std::string& to) { return {escaped(from), rewrite_of(to)}; }

/// Returns the pattern row that maps `from` to `to`, and also every name that differs from `from` in its numbers only,
/// such as the number of a layer. Returns nothing unless both names contain the same numbers in the same order.
std::optional<row> row_of_layers(const std::string& from, const std::string& to) {
  const auto left = numbers_in(from), right = numbers_in(to);
  constexpr size_t most_groups = 9;  // \9 is the last group to which the right side can refer
  if (left.empty() || left.size() != right.size() || left.size() > most_groups) return std::nullopt;
  row out;
  size_t at_left = 0, at_right = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    if (from.compare(left[i].first, left[i].second - left[i].first, to, right[i].first,
                     right[i].second - right[i].first) != 0)
      return std::nullopt;
    out.left += escaped(std::string_view(from).substr(at_left, left[i].first - at_left)).append(any_number);
    out.right +=
        fmt::format("{}\\{}", rewrite_of(std::string_view(to).substr(at_right, right[i].first - at_right)), i + 1);
    at_left = left[i].second;
    at_right = right[i].second;
  }
  out.left += escaped(std::string_view(from).substr(at_left));
  out.right += rewrite_of(std::string_view(to).substr(at_right));
  return out;
}

}  // namespace

std::string printed_map(const std::vector<std::pair<std::string, std::string>>& names) {
  std::map<std::string, std::set<std::string>> meanings;  // [left side of a row]: right sides of all rows with it
  for (const auto& [from, to] : names) {
    const auto shared = row_of_layers(from, to);
    // A row for all layers is used only if its pattern maps no layer to a wrong name.
    meanings[shared ? shared->left : row_of_layers(from, from).value_or(plain_row(from, to)).left].insert(
        shared ? shared->right : "");
  }
  std::string out = "names:\n";
  std::set<row> said;
  for (const auto& [from, to] : names) {
    const auto shared = row_of_layers(from, to);
    const auto line = shared && meanings[shared->left].size() == 1 ? *shared : plain_row(from, to);
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
    if (std::ranges::any_of(line.left + line.right, is_control)) continue;  // no line can contain control characters
    if (said.insert(line).second)
      out += "  " + core::yaml_quoted(line.left) + ": " + core::yaml_quoted(line.right) + "\n";
  }
  return out;
}

}  // namespace troupe::formats
