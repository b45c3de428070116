#include "sim/network/end_pattern.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/number.hpp"
#include "core/text.hpp"

namespace troupe::sim {
namespace {

/// Largest number in a pattern and largest value of an expression; products of two of them fit 64 bits.
constexpr uint64_t most_in_pattern = uint64_t{1} << 31;

bool is_of_name(char c) { return core::is_ascii_word(c) || c == '_' || c == '-'; }

std::string_view take_word(std::string_view& text) {
  size_t n = 0;
  while (n < text.size() && is_of_name(text[n])) ++n;
  const std::string_view out = text.substr(0, n);
  text.remove_prefix(n);
  return out;
}

std::optional<index_expression> parse_index(std::string_view text) {
  index_expression out;
  for (char sign = '+';; text.remove_prefix(1)) {
    index_expression::term t{.sign = sign, .variable = {}, .number = 0};
    size_t letters = 0;
    while (letters < text.size() && text[letters] >= 'a' && text[letters] <= 'z') ++letters;
    if (letters > 0) {
      t.variable = text.substr(0, letters);
      text.remove_prefix(letters);
    } else {
      if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
      const auto number = core::take_number<uint64_t>(text);
      if (!number || *number > most_in_pattern) return std::nullopt;
      t.number = *number;
    }
    out.terms.push_back(std::move(t));
    if (text.empty()) return out;
    sign = text[0];
    if (std::string_view("+-*/%").find(sign) == std::string_view::npos) return std::nullopt;
  }
}

}  // namespace

std::optional<uint64_t> index_expression::value(const std::function<uint64_t(const std::string&)>& of_variable) const {
  uint64_t x = 0;
  for (const term& t : terms) {
    const uint64_t by = t.variable.empty() ? t.number : of_variable(t.variable);
    if (t.sign == '-' && by > x) return std::nullopt;
    if ((t.sign == '/' || t.sign == '%') && by == 0) return std::nullopt;
    if (t.sign == '+') x += by;
    if (t.sign == '-') x -= by;
    if (t.sign == '*') x *= by;
    if (t.sign == '/') x /= by;
    if (t.sign == '%') x %= by;
    if (x > most_in_pattern) return std::nullopt;
  }
  return x;
}

core::result<end_pattern> parse_end(std::string_view text) {
  end_pattern out{std::string(text), {}};
  const auto wrong = [&] {
    return core::refused(
        fmt::format("wanted a name such as leaf0, node(n).device(d) or leaf(n/8), got {}", core::shown(out.text)));
  };
  for (;;) {
    pattern_part part;
    part.word = take_word(text);
    if (part.word.empty() || out.parts.size() == 2) return wrong();
    if (text.starts_with('(')) {
      const size_t end = text.find(')');
      if (end == std::string_view::npos) return wrong();
      part.index = parse_index(text.substr(1, end - 1));
      if (!part.index) return wrong();
      text.remove_prefix(end + 1);
    }
    out.parts.push_back(std::move(part));
    if (text.empty()) return out;
    if (text[0] != '.') return wrong();
    text.remove_prefix(1);
  }
}

}  // namespace troupe::sim
