// Reads JSON into nodes, as leniently as Hjson, with which DeepSpeed reads its files: comments, a comma after the last
// item or no commas between lines, names and texts without quotes. Leaves the meaning of values to the key table.

#include <fmt/format.h>

#include <algorithm>

#include "config/document/text_form.hpp"
#include "config/document/tree_builder.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"

namespace troupe::config {
namespace {

class json_reader {
 public:
  json_reader(std::string_view text, tree_builder& builder) : text_(text), builder_(builder) {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  }

  void read() {
    skip();
    value();
    skip();
    if (!ended()) refuse();
  }

 private:
  [[nodiscard]] bool ended() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

  void next() {
    if (text_[at_] == '\n') {
      ++line_;
      column_ = 1;
    } else if ((static_cast<unsigned char>(text_[at_]) & 0xC0U) != 0x80) {
      ++column_;
    }
    ++at_;
  }
  [[nodiscard]] place here() const { return builder_.at(line_, column_); }

  [[noreturn]] void refuse() const {
    if (ended()) throw refusal{here(), "not readable as JSON: the text ends too early"};
    size_t end = at_ + 1;
    const bool alone = is_mark(text_[at_]) && text_[at_] != '"' && text_[at_] != '\'';
    while (!alone && end < text_.size() && end - at_ < most_shown && !is_blank(text_[end]) && !is_mark(text_[end]))
      ++end;
    // The shown text must not end inside a UTF-8 character, and control characters would break the line of the error
    // message.
    while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0U) == 0x80) ++end;
    std::string token(text_.substr(at_, end - at_));
    for (char& c : token)
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    throw refusal{here(), "not readable as JSON here: '" + token + "'"};
  }
  static bool is_mark(char c) { return std::string_view(",:[]{}\"'").find(c) != std::string_view::npos; }

  /// Skips blanks and comments; returns true if a line end was among them.
  bool skip() {
    const int line = line_;
    while (!ended()) {
      if (is_blank(peek())) {
        next();
      } else if (peek() == '#' || (peek() == '/' && peek(1) == '/')) {
        while (!ended() && peek() != '\n') next();
      } else if (peek() == '/' && peek(1) == '*') {
        const size_t close = text_.find("*/", at_ + 2);
        const size_t end = close == std::string_view::npos ? text_.size() : close + 2;
        while (at_ < end) next();
      } else {
        break;
      }
    }
    return line_ != line;
  }

  /// Reads one value; `in_list` states that it is an item of a list.
  void value(bool in_list = false) {
    const place where = here();
    switch (peek()) {
      case '{':
        builder_.open(node_kind::mapping, where);
        items('}', [this] {
          name();
          skip();
          if (peek() != ':') refuse();
          next();
          skip();
          value();
        });
        break;
      case '[':
        builder_.open(node_kind::sequence, where);
        items(']', [this] { value(/*in_list=*/true); });
        break;
      case '"':
      case '\'':
        builder_.scalar(node_kind::quoted, quoted_text(), where);
        break;
      default:
        bare(where, in_list);
    }
  }

  /// Reads the items between an opening bracket and its closing one, which is `closing`; `item` reads one item.
  void items(char closing, auto item) {
    next();
    skip();
    while (peek() != closing) {
      item();
      const bool new_line = skip();
      if (peek() == ',') {
        next();
        skip();
      } else if (peek() != closing && (!new_line || ended())) {
        refuse();
      }
    }
    next();
    builder_.close();
  }

  void name() {
    const place where = here();
    if (peek() == '"' || peek() == '\'') {
      builder_.scalar(node_kind::quoted, quoted_text(), where);
      return;
    }
    const size_t start = at_;
    while (!ended() && !is_blank(peek()) && !is_mark(peek())) next();
    if (at_ == start) refuse();
    builder_.scalar(node_kind::quoted, std::string(text_.substr(start, at_ - start)), where);
  }

  /// Reads a number, a literal, or text without quotes, which ends at the end of its line, list or mapping, or at a
  /// comma that precedes such an end or a quote. Refuses text in which the next item of the line would be lost.
  void bare(place where, bool in_list) {
    const size_t start = at_;
    size_t end = at_;
    while (!ended() && peek() != '\n' && peek() != ']' && peek() != '}') {
      const bool comment = peek() == '#' || (peek() == '/' && (peek(1) == '/' || peek(1) == '*'));
      if (comment && (at_ == start || is_blank(text_[at_ - 1]))) break;
      if (peek() == ',' && (is_literal(start, at_) || ends_item(at_ + 1))) break;
      if ((is_mark(peek()) && at_ == start) || peek() == '"') refuse();  // two values without a comma between them
      if (!is_blank(peek())) end = at_ + 1;
      next();
    }
    if (end == start) refuse();
    const std::string_view text = text_.substr(start, end - start);
    if (const auto next_name = name_within(text); !next_name.empty())
      throw refusal{where,
                    fmt::format("text without quotes goes on to the end of its line, so that '{}:' would be a part "
                                "of it: put the text in quotes",
                                next_name)};
    if (const size_t comma = text.find(','); in_list && comma != std::string_view::npos)
      throw refusal{where, fmt::format("text without quotes goes on to the end of its line or list, so that '{}' would "
                                       "be a part of it: put each item in quotes",
                                       core::shown(core::trimmed(text.substr(comma + 1))))};
    builder_.scalar(text == "null" ? node_kind::null : node_kind::plain, text == "null" ? "" : std::string(text),
                    where);
  }
  [[nodiscard]] bool ends_item(size_t at) const {
    const size_t next = text_.find_first_not_of(" \t\r", at);
    return next == std::string_view::npos || std::string_view("\n\"'#]}").find(text_[next]) != std::string_view::npos ||
           text_.substr(next, 2) == "//" || text_.substr(next, 2) == "/*";
  }
  static bool is_name_character(char c) {
    return core::is_ascii_word(c) || std::string_view("_-.").find(c) != std::string_view::npos;
  }
  /// Returns the first name between a comma and a colon in text without quotes, which was probably meant as the next
  /// item of the line; empty if there is none.
  static std::string_view name_within(std::string_view text) {
    constexpr std::string_view blanks = " \t";
    for (size_t comma = text.find(','); comma != std::string_view::npos; comma = text.find(',', comma + 1)) {
      const size_t first = std::min(text.find_first_not_of(blanks, comma + 1), text.size());
      size_t end = first;
      while (end < text.size() && is_name_character(text[end])) ++end;
      const size_t colon = text.find_first_not_of(blanks, end);
      if (end > first && colon != std::string_view::npos && text[colon] == ':') return text.substr(first, end - first);
    }
    return {};
  }
  /// True if the characters [from, to) are a value that JSON itself writes without quotes, which contains no comma.
  [[nodiscard]] bool is_literal(size_t from, size_t to) const {
    const std::string_view token = text_.substr(from, to - from);
    return token == "true" || token == "false" || token == "null" ||
           token.find_first_not_of("+-.0123456789eE") == std::string_view::npos;
  }

  std::string quoted_text() {
    const char quote = peek();
    std::string out;
    next();
    while (peek() != quote || ended()) {
      if (ended() || static_cast<unsigned char>(peek()) < 0x20) refuse();
      if (peek() != '\\') {
        out += peek();
        next();
        continue;
      }
      next();
      escape(out);
    }
    next();
    return out;
  }

  void escape(std::string& out) {
    constexpr std::string_view letters = "\"'\\/bfnrt", meant = "\"'\\/\b\f\n\r\t";
    if (peek() == 'u') {
      next();
      uint32_t code = four_digits();
      if (code >= 0xD800 && code < 0xDC00 && peek() == '\\' && peek(1) == 'u') {
        next();
        next();
        const uint32_t low = four_digits();
        if (low < 0xDC00 || low > 0xDFFF) refuse();
        code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
      }
      if ((code >= 0xD800 && code < 0xE000) || code == 0) refuse();
      core::append_utf8(code, out);
      return;
    }
    const size_t at = ended() ? std::string_view::npos : letters.find(peek());
    if (at == std::string_view::npos) refuse();
    out += meant[at];
    next();
  }

  uint32_t four_digits() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const auto digit = std::string_view("0123456789abcdef").find(static_cast<char>(peek() | 0x20));
      if (ended() || digit == std::string_view::npos) refuse();
      code = code * 16 + static_cast<uint32_t>(digit);
      next();
    }
    return code;
  }

  /// Largest number of bytes of the text that an error shows.
  static constexpr size_t most_shown = 40;

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1, column_ = 1;
  tree_builder& builder_;
};

}  // namespace

document read_json(std::string_view text, uint32_t source) {
  tree_builder builder(source);
  try {
    if (const auto reason = unreadable(text, source)) throw *reason;
    json_reader(text, builder).read();
    return builder.take();
  } catch (const refusal& r) {
    return {nullptr, {{r.at, "", r.text}}};
  }
}

}  // namespace troupe::config
