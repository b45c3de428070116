// Formats numbers and names as text for users and programs. Owns the rule that the locale of a host program does
// not change the text: neither setlocale() nor std::locale::global() puts a decimal comma, a thousands separator or a
// byte that is not UTF-8 into files and messages.
#pragma once

#include <locale.h>  // NOLINT: uselocale() is POSIX's
#include <clocale>
#include <cstdio>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/utf8.hpp"

namespace troupe::core {

/// Sets the C locale for printf in the calling thread while the object exists, whatever locale the process has set.
class c_locale_scope {
 public:
  c_locale_scope() : before_(::uselocale(c_locale())) {}
  ~c_locale_scope() { ::uselocale(before_); }
  c_locale_scope(const c_locale_scope&) = delete;
  c_locale_scope& operator=(const c_locale_scope&) = delete;

 private:
  static ::locale_t c_locale() {
    static const ::locale_t c = ::newlocale(LC_ALL_MASK, "C", nullptr);
    return c;
  }
  ::locale_t before_;
};

/// Returns the output of printf as a string, with a decimal point in numbers whatever the locale.
std::string text_of(const char* pattern, auto... xs) {
  const c_locale_scope c;
  char shortly[512];
  const int n = std::snprintf(shortly, sizeof shortly, pattern, xs...);
  if (n < static_cast<int>(sizeof shortly)) return {shortly, static_cast<size_t>(n < 0 ? 0 : n)};
  std::string out(static_cast<size_t>(n) + 1, '\0');
  std::snprintf(out.data(), out.size(), pattern, xs...);
  out.pop_back();
  return out;
}

/// Returns the shortest text of a number that reads back to the same bits; "nan" for a NaN, and "inf" or "-inf" for
/// infinity.
inline std::string number_text(double x) {
  if (std::isnan(x)) return "nan";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, x).ptr};
}

/// Returns a size as "1.50 GiB" or "640 B": three digits, powers of 1024. Accepts any number type, since a requested
/// size may exceed every integer type.
std::string human_bytes(auto count) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  auto bytes = static_cast<double>(count);
  size_t unit = 0;
  // A value that rounds to 1000 or more would need four digits, so the next unit is used.
  for (; unit + 1 < std::size(units) && std::round(bytes) >= 1000; ++unit) bytes /= 1024;
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return text_of("%.*f %s", decimals, bytes, units[unit]);
}

/// Returns a duration as `1:02:03`, `2:03`, or `0:07` below a minute; a fraction of a second is rounded up.
inline std::string clock_text(double seconds) {
  const auto s = static_cast<unsigned long long>(std::ceil(std::max(seconds, 0.0)));
  if (s >= 3600) return text_of("%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
  return text_of("%llu:%02llu", s / 60, s % 60);
}

/// Returns `s` as a JSON string in double quotes. UTF-8 stays unchanged; each byte that is not valid UTF-8 becomes
/// U+FFFD.
inline std::string json_string(std::string_view s) {
  constexpr std::string_view digits = "0123456789abcdef", replacement = "\xEF\xBF\xBD";
  std::string out = "\"";
  while (!s.empty()) {
    const size_t n = utf8_character(s);
    const auto c = static_cast<unsigned char>(s[0]);
    if (n == 0)
      out += replacement;
    else if (c == '"' || c == '\\')
      (out += '\\') += s[0];
    else if (c < 0x20 || c == 0x7F)
      ((out += "\\u00") += digits[c >> 4]) += digits[c & 15];
    else
      out += s.substr(0, n);
    s.remove_prefix(n == 0 ? 1 : n);
  }
  return out += '"';
}

/// Replacements of std::tolower, std::isalnum, std::isspace and std::iscntrl, whose results depend on the locale.
constexpr char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
constexpr bool is_ascii_word(char c) {  ///< true for a letter or a digit
  return (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z') || (c >= '0' && c <= '9');
}
/// True for space, tab and the characters that end a line.
constexpr bool is_ascii_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
/// True for bytes below space, and for DEL.
constexpr bool is_ascii_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

/// Returns the text with ASCII letters in lower case.
inline std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = ascii_lower(c);
  return out;
}

/// Returns the text without the characters of `blanks` at both ends.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\n\v\f\r") {
  const size_t first = text.find_first_not_of(blanks);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// Returns the text between single quotes, for messages. Quotes in the text are not escaped.
inline std::string in_quotes(std::string_view text) { return std::string(1, '\'').append(text).append("'"); }

/// Returns a YAML scalar in single quotes that has exactly this text, which is one line.
inline std::string yaml_quoted(std::string_view text) {
  std::string out(1, '\'');
  for (const char c : text) out.append(c == '\'' ? 2 : 1, c);
  return out + '\'';
}

/// Returns lines of columns, each as wide as its widest cell. Columns with `right` are aligned to the right; no space
/// follows the last cell.
inline std::string aligned(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right = {}) {
  std::vector<size_t> width;
  for (const auto& r : rows) {
    width.resize(std::max(width.size(), r.size()), 0);
    for (size_t c = 0; c < r.size(); ++c) width[c] = std::max(width[c], r[c].size());
  }
  std::string out;
  for (const auto& r : rows) {
    std::string line;
    for (size_t c = 0; c < r.size(); ++c) {
      const std::string pad(width[c] - r[c].size(), ' ');
      line += (c == 0 ? "" : "  ") + (c < right.size() && right[c] ? pad + r[c] : r[c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

/// Returns a range of `count` numbers from `first` on as text, with both ends included: "elements 4 to 7", or "element
/// 4" for one.
std::string range_text(std::string_view thing, uint64_t first, uint64_t count);

/// Returns a tensor's shape as text: "(2, 3)".
std::string shape_text(std::span<const int64_t> shape);

/// True for a character that a terminal does not show as a sign of its own: control characters, and those that hide
/// text, turn its direction or end a line.
constexpr bool is_unprintable(uint32_t character) {
  constexpr uint32_t others[][2] = {{0, 0x1F},        {0x7F, 0x9F},      {0x61C, 0x61C},   {0x200B, 0x200B},
                                    {0x200E, 0x200F}, {0x2028, 0x202E},  {0x2060, 0x206F}, {0xFEFF, 0xFEFF},
                                    {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};
  for (const auto& [first, last] : others)
    if (character >= first && character <= last) return true;
  return false;
}

/// Returns a text of foreign bytes as valid UTF-8 on one line, whole: each unprintable character and each byte that is
/// not valid UTF-8 as an escape, `\n`, `\x1b` or `\u202e`.
std::string printable_line(std::string_view text);
/// Returns the text as printable_line() does, with its line ends and tabs unchanged.
std::string printable_lines(std::string_view text);

/// Returns the number of edits (insert, delete, replace, swap of neighbours) from one name to another. Takes memory and
/// time in proportion to the product of both lengths.
size_t edits(std::string_view a, std::string_view b);

/// Returns a text of foreign bytes for one line of a message, as valid UTF-8: cut to `longest` bytes, unprintable
/// characters and each byte that is not valid UTF-8 replaced by a question mark.
inline std::string shown(std::string_view text, size_t longest = 120) {
  std::string out;
  while (!text.empty()) {
    const auto character = text.substr(0, std::max<size_t>(1, utf8_character(text)));
    if (out.size() + character.size() > longest) return out + "...";
    if (!is_utf8(character) || is_unprintable(utf8_code(character)))
      out += '?';
    else
      out += character;
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace troupe::core
