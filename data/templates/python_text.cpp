#include "data/templates/python_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/number.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/tokenizers/text/characters.hpp"

namespace troupe::data::templates {
namespace {

/// Characters whose upper case is more than one character (Unicode's SpecialCasing.txt, without conditions).
const character_set& growing_characters() {
  static const character_set all(
      {{0xDF, 0xDF},     {0x149, 0x149},   {0x1F0, 0x1F0},   {0x390, 0x390},   {0x3B0, 0x3B0},   {0x587, 0x587},
       {0x1E96, 0x1E9A}, {0x1F50, 0x1F50}, {0x1F52, 0x1F52}, {0x1F54, 0x1F54}, {0x1F56, 0x1F56}, {0x1F80, 0x1FAF},
       {0x1FB2, 0x1FB4}, {0x1FB6, 0x1FB7}, {0x1FBC, 0x1FBC}, {0x1FC2, 0x1FC4}, {0x1FC6, 0x1FC7}, {0x1FCC, 0x1FCC},
       {0x1FD2, 0x1FD3}, {0x1FD6, 0x1FD7}, {0x1FE2, 0x1FE4}, {0x1FE6, 0x1FE7}, {0x1FF2, 0x1FF4}, {0x1FF6, 0x1FF7},
       {0x1FFC, 0x1FFC}, {0xFB00, 0xFB06}, {0xFB13, 0xFB17}});
  return all;
}

/// Characters that Python's repr() writes as an escape.
const character_set& unprintable_characters() {
  static const auto all = category_named("C").with(category_named("Z"));
  return all;
}

constexpr uint32_t capital_sigma = 0x3A3;

tl::unexpected<core::error> no_case(std::string_view which, uint32_t code) {
  return core::refused(fmt::format("the {} case of U+{:04X} is not supported", which, code));
}

/// Calls each(code, bytes of the character) for all characters of a text.
void for_each_character(std::string_view text, auto each) {
  while (!text.empty()) {
    const size_t bytes = std::max<size_t>(1, core::utf8_character(text));
    each(core::utf8_code(text), text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

char ascii_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Removes digits, in which single underscores may stand between two digits, from the front of `text` and appends them
/// to `out`. Returns false if there are none.
bool take_digits(std::string_view& text, std::string& out) {
  if (text.empty() || !is_digit(text[0])) return false;
  while (!text.empty()) {
    if (text[0] == '_' && text.size() > 1 && is_digit(text[1])) text.remove_prefix(1);
    if (!is_digit(text[0])) break;
    out += text[0];
    text.remove_prefix(1);
  }
  return true;
}

void take_sign(std::string_view& text, std::string& out) {
  if (text.empty() || (text[0] != '-' && text[0] != '+')) return;
  if (text[0] == '-') out += '-';
  text.remove_prefix(1);
}

tl::unexpected<core::error> foreign_digits(std::string_view text) {
  return core::refused(fmt::format("reading '{}' as a number is not supported", core::shown(text)));
}

/// Returns the parts of python_split() from the end, whose order is that of the text.
std::vector<std::string> reversed(std::vector<std::string> parts) {
  std::ranges::reverse(parts);
  return parts;
}

}  // namespace

size_t code_points(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

size_t byte_of(std::string_view text, size_t n) {
  size_t at = 0;
  for (; n > 0 && at < text.size(); --n) at += std::max<size_t>(1, core::utf8_character(text.substr(at)));
  return at;
}

bool is_python_space(uint32_t code) {
  return (code >= 0x9 && code <= 0xD) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
         code == 0x205F || code == 0x3000;
}

bool is_python_line_end(uint32_t code) {
  return (code >= 0xA && code <= 0xD) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

std::string_view python_strip(std::string_view text, std::optional<std::string_view> chars, bool at_begin,
                              bool at_end) {
  const auto goes = [&](std::string_view character) {
    return chars ? chars->find(character) != chars->npos : is_python_space(core::utf8_code(character));
  };
  while (at_begin && !text.empty()) {
    const size_t bytes = std::max<size_t>(1, core::utf8_character(text));
    if (!goes(text.substr(0, bytes))) break;
    text.remove_prefix(bytes);
  }
  while (at_end && !text.empty()) {
    const size_t begin = core::utf8_begin_before(text, text.size());
    if (!goes(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

core::result<std::string> python_lower(std::string_view text) {
  if (is_ascii(text)) return core::lowered(text);
  std::string out;
  bool has_sigma = false;
  for_each_character(text, [&](uint32_t code, std::string_view) {
    has_sigma = has_sigma || code == capital_sigma;
    append_lower_case(code, out);
  });
  if (has_sigma) return no_case("lower", capital_sigma);
  return out;
}

core::result<std::string> python_upper(std::string_view text) {
  std::string out;
  if (is_ascii(text)) {
    for (const char c : text) out += ascii_upper(c);
    return out;
  }
  uint32_t growing = 0;
  for_each_character(text, [&](uint32_t code, std::string_view) {
    if (growing_characters().has(code)) growing = code;
    append_upper_case(code, out);
  });
  if (growing != 0) return no_case("upper", growing);
  return out;
}

core::result<std::string> python_capitalize(std::string_view text) {
  if (text.empty()) return std::string();
  const uint32_t first = core::utf8_code(text);
  if (growing_characters().has(first)) return no_case("title", first);
  std::string out;
  append_title_case(first, out);
  TROUPE_ASSIGN(const auto rest, python_lower(text.substr(byte_of(text, 1))));
  return out + rest;
}

std::vector<std::string> python_lines(std::string_view text, bool keeps_ends) {
  std::vector<std::string> out;
  size_t begin = 0, at = 0;
  while (at < text.size()) {
    const size_t bytes = std::max<size_t>(1, core::utf8_character(text.substr(at)));
    if (!is_python_line_end(core::utf8_code(text.substr(at)))) {
      at += bytes;
      continue;
    }
    const size_t end = at;
    at += text.substr(at).starts_with("\r\n") ? 2 : bytes;
    out.emplace_back(text.substr(begin, (keeps_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) out.emplace_back(text.substr(begin));
  return out;
}

std::string python_replace(std::string_view text, std::string_view old, std::string_view with, int64_t most) {
  std::string out;
  size_t at = 0;
  if (old.empty()) {  // an empty text is found before each character and at the end
    for (;; --most) {
      if (most == 0) break;
      out += with;
      if (at >= text.size()) break;
      const size_t bytes = std::max<size_t>(1, core::utf8_character(text.substr(at)));
      out += text.substr(at, bytes);
      at += bytes;
    }
    return out.append(text.substr(std::min(at, text.size())));
  }
  for (; most != 0; --most) {
    const size_t next = text.find(old, at);
    if (next == text.npos) break;
    out.append(text.substr(at, next - at)).append(with);
    at = next + old.size();
  }
  return out.append(text.substr(at));
}

std::vector<std::string> python_split(std::string_view text, int64_t most, bool from_end) {
  std::vector<std::string> out;
  const auto space_at = [&](size_t at) { return is_python_space(core::utf8_code(text.substr(at))); };
  const auto step = [&](size_t at) { return std::max<size_t>(1, core::utf8_character(text.substr(at))); };
  if (!from_end) {
    for (;; --most) {
      text = python_strip(text, std::nullopt, true, false);
      if (text.empty()) return out;
      if (most == 0) break;
      size_t end = 0;
      while (end < text.size() && !space_at(end)) end += step(end);
      out.emplace_back(text.substr(0, end));
      text.remove_prefix(end);
    }
    out.emplace_back(python_strip(text, std::nullopt, true, false));
    return out;
  }
  for (;; --most) {
    text = python_strip(text, std::nullopt, false, true);
    if (text.empty()) return reversed(std::move(out));
    if (most == 0) break;
    size_t begin = text.size();
    while (begin > 0) {
      const size_t before = core::utf8_begin_before(text, begin);
      if (space_at(before)) break;
      begin = before;
    }
    out.emplace_back(text.substr(begin));
    text.remove_suffix(text.size() - begin);
  }
  out.emplace_back(text);
  return reversed(std::move(out));
}

std::vector<std::string> python_split(std::string_view text, std::string_view separator, int64_t most, bool from_end) {
  std::vector<std::string> out;
  for (; most != 0; --most) {
    const size_t at = from_end ? text.rfind(separator) : text.find(separator);
    if (at == text.npos) break;
    out.emplace_back(from_end ? text.substr(at + separator.size()) : text.substr(0, at));
    text = from_end ? text.substr(0, at) : text.substr(at + separator.size());
  }
  out.emplace_back(text);
  return from_end ? reversed(std::move(out)) : out;
}

std::string python_float(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer{};
  const auto* const end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), x, std::chars_format::scientific).ptr;
  std::string_view made(buffer.data(), static_cast<size_t>(end - buffer.data()));
  std::string out;
  if (made.starts_with('-')) {
    out = "-";
    made.remove_prefix(1);
  }
  const size_t mark = made.find('e');
  std::string digits(made.substr(0, mark));
  std::erase(digits, '.');
  std::string_view power = made.substr(mark + 1);
  if (power.starts_with('+')) power.remove_prefix(1);
  const int exponent = core::number_of<int>(power).value_or(0);
  const auto count = static_cast<int>(digits.size());
  // Python writes an exponent below 1e-4 and from 1e16 on.
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out.append(".").append(digits, 1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out.append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(digits);
  if (count <= exponent + 1)
    return out.append(digits).append(static_cast<size_t>(exponent + 1 - count), '0').append(".0");
  const auto whole_digits = static_cast<size_t>(exponent + 1);
  return out.append(digits, 0, whole_digits).append(".").append(digits, whole_digits);
}

std::string python_quoted(std::string_view text) {
  const bool has_single = text.find('\'') != text.npos, has_double = text.find('"') != text.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for_each_character(text, [&](uint32_t code, std::string_view character) {
    if (code == static_cast<uint32_t>(quote) || code == '\\')
      (out += '\\') += static_cast<char>(code);
    else if (code == '\n')
      out += "\\n";
    else if (code == '\r')
      out += "\\r";
    else if (code == '\t')
      out += "\\t";
    else if (code >= 0x20 && code < 0x7F)
      out += static_cast<char>(code);
    else if (code >= 0x80 && !unprintable_characters().has(code))
      out += character;
    else if (code < 0x100)
      out += fmt::format("\\x{:02x}", code);
    else if (code < 0x10000)
      out += fmt::format("\\u{:04x}", code);
    else
      out += fmt::format("\\U{:08x}", code);
  });
  return out + quote;
}

core::result<std::optional<int64_t>> python_int(std::string_view text) {
  std::string_view rest = python_strip(text);
  if (!is_ascii(rest)) return foreign_digits(text);
  std::string digits;
  take_sign(rest, digits);
  if (!take_digits(rest, digits) || !rest.empty()) return std::optional<int64_t>();
  const auto out = core::number_of<int64_t>(digits);
  if (!out) return core::refused(fmt::format("the number {} is beyond 64 bits", core::shown(digits)));
  return out;
}

core::result<std::optional<double>> python_float_of(std::string_view text) {
  std::string_view rest = python_strip(text);
  if (!is_ascii(rest)) return foreign_digits(text);
  std::string number;
  take_sign(rest, number);
  const bool is_negative = !number.empty();
  const std::string word = core::lowered(rest);
  if (word == "nan") return std::optional<double>(std::numeric_limits<double>::quiet_NaN());
  if (word == "inf" || word == "infinity") {
    const double infinite = std::numeric_limits<double>::infinity();
    return std::optional<double>(is_negative ? -infinite : infinite);
  }
  bool has_digits = take_digits(rest, number);
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    if (!has_digits) number += '0';
    std::string fraction;
    const bool has_fraction = take_digits(rest, fraction);
    if (has_fraction) number.append(".").append(fraction);
    has_digits = has_digits || has_fraction;
  }
  if (!has_digits) return std::optional<double>();
  if (!rest.empty() && (rest[0] == 'e' || rest[0] == 'E')) {
    rest.remove_prefix(1);
    number += 'e';
    take_sign(rest, number);
    if (!take_digits(rest, number)) return std::optional<double>();
  }
  if (!rest.empty()) return std::optional<double>();
  const auto out = core::number_of<double>(number);
  if (!out) return core::refused(fmt::format("the number {} is outside the range of a double", core::shown(number)));
  return out;
}

}  // namespace troupe::data::templates
