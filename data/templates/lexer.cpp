#include "data/templates/lexer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/number.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/templates/python_text.hpp"

namespace troupe::data::templates {
namespace {

bool is_decimal(char c) { return c >= '0' && c <= '9'; }
bool is_name_character(char c) { return core::is_ascii_word(c) || c == '_'; }

/// Returns the template with `\n` as the end of each line, and without the last one.
std::string with_plain_lines(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

/// Cuts one template.
class lexer {
 public:
  lexer(std::string_view name, std::string source) : name_(name), source_(std::move(source)) {}

  core::result<std::vector<token>> run() {
    while (at_ < source_.size()) TROUPE_TRY(data());
    add(token::kind::end, at_);
    return std::move(tokens_);
  }

 private:
  enum class mark : uint8_t { comment, block, variable, raw };

  [[nodiscard]] std::string_view rest(size_t at) const {
    return std::string_view(source_).substr(std::min(at, source_.size()));
  }

  /// Returns the place of a byte. Tokens are made in order, so each line is counted once for them.
  position place(size_t at) {
    if (at < counted_) {
      counted_ = line_begin_ = 0;
      line_ = 1;
    }
    for (; counted_ < at; ++counted_)
      if (source_[counted_] == '\n') {
        ++line_;
        line_begin_ = counted_ + 1;
      }
    return {line_, static_cast<uint32_t>(at - line_begin_ + 1)};
  }

  tl::unexpected<core::error> refused(size_t at, std::string_view what) {
    return core::refused(located(name_, place(at), what));
  }

  void add(token::kind is, size_t at, std::string word = {}) {
    tokens_.push_back({is, std::move(word), {}, place(at)});
  }

  /// Returns the end of the white space that begins at a byte.
  [[nodiscard]] size_t after_space(size_t at) const {
    while (at < source_.size() && is_python_space(core::utf8_code(rest(at))))
      at += std::max<size_t>(1, core::utf8_character(rest(at)));
    return at;
  }

  /// Returns the end of a whole `{% raw %}` at a byte, or of `{% endraw %}`, up to its `%}`; nullopt if there is none.
  [[nodiscard]] std::optional<size_t> raw_mark(size_t at, std::string_view word) const {
    if (!rest(at).starts_with("{%")) return std::nullopt;
    at += 2;
    if (rest(at).starts_with('-') || rest(at).starts_with('+')) ++at;
    at = after_space(at);
    if (!rest(at).starts_with(word)) return std::nullopt;
    return after_space(at + word.size());
  }

  /// Adds the text before a mark, without the white space that the mark removes.
  void add_data(std::string_view text, size_t begin, char sign, bool is_variable) {
    if (sign == '-') {
      text = python_strip(text, std::nullopt, false, true);
    } else if (sign != '+' && !is_variable) {
      const size_t line = text.rfind('\n') + 1;  // 0 if there is no end of a line
      if ((line > 0 || begins_line_) && python_strip(text.substr(line)).empty()) text = text.substr(0, line);
    }
    if (!text.empty()) add(token::kind::data, begin, std::string(text));
  }

  /// Moves behind a mark that has been read up to `end`.
  void go_to(size_t end) {
    begins_line_ = end > 0 && source_[end - 1] == '\n';
    at_ = end;
  }

  /// Returns the end of `%}` or `#}` at `at`, with the end of the line that it removes.
  [[nodiscard]] size_t after_end(size_t at) const { return rest(at + 2).starts_with('\n') ? at + 3 : at + 2; }

  /// Reads text, and the mark behind it with its content.
  core::result<void> data() {
    const size_t begin = at_;
    size_t at = begin;
    std::optional<mark> found;
    std::optional<size_t> raw_end;
    for (; at + 1 < source_.size() && !found; ++at) {
      if (source_[at] != '{') continue;
      const char next = source_[at + 1];
      if (next == '%') {
        found = mark::block;
        raw_end = raw_mark(at, "raw");
        if (raw_end && (rest(*raw_end).starts_with("%}") || rest(*raw_end).starts_with("-%}"))) found = mark::raw;
      } else if (next == '#') {
        found = mark::comment;
      } else if (next == '{') {
        found = mark::variable;
      }
      if (found) break;
    }
    const auto text = std::string_view(source_).substr(begin, (found ? at : source_.size()) - begin);
    if (!found) {
      add(token::kind::data, begin, std::string(text));
      at_ = source_.size();
      return {};
    }
    const char third = at + 2 < source_.size() ? source_[at + 2] : ' ';
    const char sign = third == '-' || third == '+' ? third : ' ';
    add_data(text, begin, sign, *found == mark::variable);
    const size_t inside = at + (sign == ' ' ? 2 : 3);
    switch (*found) {
      case mark::comment:
        return comment(at, inside);
      case mark::raw:
        return raw(at, *raw_end);
      case mark::block:
      case mark::variable:
        break;
    }
    add(*found == mark::block ? token::kind::block_begin : token::kind::variable_begin, at);
    at_ = inside;
    return code(*found == mark::block, at);
  }

  core::result<void> comment(size_t begin, size_t inside) {
    const size_t end = source_.find("#}", inside);
    if (end == std::string::npos) return refused(begin, "this comment has no end '#}'");
    const char sign = end > inside ? source_[end - 1] : ' ';
    go_to(sign == '-' ? after_space(end + 2) : sign == '+' ? end + 2 : after_end(end));
    return {};
  }

  core::result<void> raw(size_t begin, size_t end_of_mark) {
    go_to(rest(end_of_mark).starts_with('-') ? after_space(end_of_mark + 3) : end_of_mark + 2);
    const size_t inside = at_;
    for (size_t at = inside; (at = source_.find("{%", at)) != std::string::npos; ++at) {
      const auto end = raw_mark(at, "endraw");
      if (!end) continue;
      const bool has_sign = rest(*end).starts_with('-') || rest(*end).starts_with('+');
      if (!rest(*end + (has_sign ? 1 : 0)).starts_with("%}")) continue;
      const char third = source_[at + 2];
      add_data(std::string_view(source_).substr(inside, at - inside), inside,
               third == '-' || third == '+' ? third : ' ', false);
      const char last = has_sign ? source_[*end] : ' ';
      go_to(last == '-' ? after_space(*end + 3) : last == '+' ? *end + 3 : after_end(*end));
      return {};
    }
    return refused(begin, "this 'raw' has no '{% endraw %}'");
  }

  /// Returns the end of the mark that ends the code at a byte; nullopt if the code goes on there.
  [[nodiscard]] std::optional<size_t> end_of_code(bool is_block, size_t at) const {
    const std::string_view here = rest(at), end = is_block ? "%}" : "}}";
    if (here.starts_with('-') && here.substr(1).starts_with(end)) return after_space(at + 3);
    if (is_block && here.starts_with("+%}")) return at + 3;
    if (!here.starts_with(end)) return std::nullopt;
    return is_block ? after_end(at) : at + 2;
  }

  /// Reads the tokens of a block or variable, whose mark begins at byte `begin`.
  core::result<void> code(bool is_block, size_t begin) {
    std::string open;  // the brackets that are open
    while (at_ < source_.size()) {
      if (open.empty())
        if (const auto end = end_of_code(is_block, at_)) {
          add(is_block ? token::kind::block_end : token::kind::variable_end, at_);
          go_to(*end);
          return {};
        }
      if (const size_t end = after_space(at_); end > at_) {
        at_ = end;
        continue;
      }
      const char c = source_[at_];
      if (is_decimal(c)) {
        TROUPE_TRY(number());
      } else if (is_name_character(c)) {
        size_t end = at_;
        while (end < source_.size() && is_name_character(source_[end])) ++end;
        add(token::kind::name, at_, source_.substr(at_, end - at_));
        at_ = end;
      } else if (c == '\'' || c == '"') {
        TROUPE_TRY(string());
      } else {
        TROUPE_TRY(symbol(open));
      }
    }
    return refused(begin, is_block ? "this '{%' has no end '%}'" : "this '{{' has no end '}}'");
  }

  /// Returns the end of digits, between which single underscores may stand; `at` if there are none.
  [[nodiscard]] size_t after_digits(size_t at) const {
    if (at >= source_.size() || !is_decimal(source_[at])) return at;
    while (at < source_.size() &&
           (is_decimal(source_[at]) || (source_[at] == '_' && at + 1 < source_.size() && is_decimal(source_[at + 1]))))
      ++at;
    return at;
  }

  /// Returns the end of a number with a fraction or exponent; nullopt if there is only an integer.
  [[nodiscard]] std::optional<size_t> after_real() const {
    if (at_ > 0 && source_[at_ - 1] == '.') return std::nullopt;
    size_t end = after_digits(at_);
    const size_t after_whole = end;
    if (end < source_.size() && source_[end] == '.' && after_digits(end + 1) > end + 1) end = after_digits(end + 1);
    if (end < source_.size() && core::ascii_lower(source_[end]) == 'e') {
      size_t power = end + 1;
      if (power < source_.size() && (source_[power] == '+' || source_[power] == '-')) ++power;
      if (after_digits(power) > power) return after_digits(power);
    }
    return end > after_whole ? std::optional<size_t>(end) : std::nullopt;
  }

  core::result<void> number() {
    const size_t begin = at_;
    if (const auto end = after_real()) {
      std::string digits = source_.substr(begin, *end - begin);
      std::erase(digits, '_');
      std::erase(digits, '+');
      const auto x = core::number_of<double>(digits);
      if (!x) return refused(begin, fmt::format("the number {} is outside the range of a double", core::shown(digits)));
      add(token::kind::number, begin);
      tokens_.back().constant = real(*x);
      at_ = *end;
      return {};
    }
    if (source_[begin] == '0' && begin + 1 < source_.size() &&
        std::string_view("bBoOxX").find(source_[begin + 1]) != std::string_view::npos)
      return refused(begin, "a number in base 2, 8 or 16 is not supported");
    size_t end = after_digits(begin);
    if (source_[begin] == '0') {  // digits behind a leading zero are another number, as in Jinja
      end = begin + 1;
      while (end < source_.size() &&
             (source_[end] == '0' || (source_[end] == '_' && end + 1 < source_.size() && source_[end + 1] == '0')))
        ++end;
    }
    std::string digits = source_.substr(begin, end - begin);
    std::erase(digits, '_');
    const auto x = core::number_of<int64_t>(digits);
    if (!x) return refused(begin, fmt::format("the number {} is beyond 64 bits", core::shown(digits)));
    add(token::kind::number, begin);
    tokens_.back().constant = whole(*x);
    at_ = end;
    return {};
  }

  core::result<void> string() {
    const size_t begin = at_;
    const char quote = source_[begin];
    size_t end = begin + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return refused(begin, "this text has no end quote");
    TROUPE_ASSIGN(auto text, unescaped(begin + 1, end));
    add(token::kind::string, begin, std::move(text));
    at_ = end + 1;
    return {};
  }

  /// Returns the text of a literal between two bytes, whose escapes are those of Python.
  core::result<std::string> unescaped(size_t at, size_t end) {
    constexpr std::string_view letters = "abfnrtv\\'\"", meanings = "\a\b\f\n\r\t\v\\'\"";
    std::string out;
    while (at < end) {
      if (source_[at] != '\\') {
        out += source_[at++];
        continue;
      }
      const size_t begin = at;
      const char c = source_[++at];
      if (const size_t letter = letters.find(c); letter != letters.npos) {
        out += meanings[letter];
        ++at;
      } else if (c == '\n') {
        ++at;
      } else if (c >= '0' && c <= '7') {
        uint32_t code = 0;
        for (size_t n = 0; n < 3 && at < end && source_[at] >= '0' && source_[at] <= '7'; ++n)
          code = code * 8 + static_cast<uint32_t>(source_[at++] - '0');
        core::append_utf8(code, out);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        const auto code = core::number_of<uint32_t>(rest(at + 1).substr(0, std::min(digits, end - at - 1)), 16);
        if (end - at - 1 < digits || !code)
          return refused(begin, fmt::format("wanted {} hexadecimal digits after '\\{}'", digits, c));
        if (*code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000))
          return refused(begin, fmt::format("U+{:04X} is not a character", *code));
        core::append_utf8(*code, out);
        at += 1 + digits;
      } else if (c == 'N') {
        return refused(begin, "the escape '\\N' is not supported");
      } else if (static_cast<unsigned char>(c) >= 0x80) {
        // Jinja turns the character into an escape first, so the backslash before it escapes the escape's backslash.
        const uint32_t code = core::utf8_code(rest(at));
        out += code < 0x100     ? fmt::format("\\x{:02x}", code)
               : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                : fmt::format("\\U{:08x}", code);
        at += core::utf8_character(rest(at));
      } else {
        out += '\\';
      }
    }
    return out;
  }

  core::result<void> symbol(std::string& open) {
    constexpr std::array<std::string_view, 6> pairs{"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view singles = "+-/*%~[](){}><=.:|,;";
    const auto two = rest(at_).substr(0, 2);
    if (std::ranges::find(pairs, two) != pairs.end()) {
      add(token::kind::symbol, at_, std::string(two));
      at_ += 2;
      return {};
    }
    const char c = source_[at_];
    if (singles.find(c) == singles.npos) {
      const size_t bytes = std::max<size_t>(1, core::utf8_character(rest(at_)));
      return refused(at_,
                     fmt::format("the character '{}' begins nothing here", core::shown(rest(at_).substr(0, bytes))));
    }
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c)
        return refused(at_, open.empty() ? fmt::format("'{}' closes nothing", c)
                                         : fmt::format("wanted '{}', got '{}'", open.back(), c));
      open.pop_back();
    }
    add(token::kind::symbol, at_, std::string(1, c));
    ++at_;
    return {};
  }

  std::string_view name_;
  std::string source_;
  std::vector<token> tokens_{};
  size_t at_ = 0;
  bool begins_line_ = true;  ///< the mark before the text that follows ended with the end of a line
  size_t counted_ = 0, line_begin_ = 0;
  uint32_t line_ = 1;
};

}  // namespace

std::string located(std::string_view name, position at, std::string_view what) {
  return fmt::format("template '{}', line {}, column {}: {}", core::shown(name), at.line, at.column, what);
}

core::result<std::vector<token>> tokens_of(std::string_view name, std::string_view source) {
  if (source.size() > largest_template)
    return core::fail(core::error_kind::limit, fmt::format("template '{}': {} bytes; at most {} are read",
                                                           core::shown(name), source.size(), largest_template));
  if (!core::is_utf8(source)) return core::refused(fmt::format("template '{}' is not UTF-8", core::shown(name)));
  return lexer(name, with_plain_lines(source)).run();
}

}  // namespace troupe::data::templates
