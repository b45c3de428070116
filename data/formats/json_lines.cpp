// Reads JSON objects with an event parser, so that only the text of each document is built in memory.
#include "data/formats/json_lines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/text.hpp"
#include "core/utf8.hpp"

namespace troupe::data {
namespace {

using nlohmann::json;

constexpr size_t most_shown_keys = 8;

/// Event handler of the JSON parser that extracts the string under one key of an object and builds nothing else.
class text_taker final : public nlohmann::json_sax<json> {
 public:
  explicit text_taker(const std::string& wanted) : wanted_(wanted) {}

  std::optional<std::string> text;
  bool is_object = false;
  /// JSON type of the value under the key, if it is not a string; empty: it is one, or the key is missing.
  std::string other_type;
  size_t broken_at = 0;                      ///< byte of the line at which the JSON is broken, from 1
  std::vector<std::string>* keys = nullptr;  ///< receives the first keys of the object; null: they are not needed

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a boolean"); }
  bool number_integer(number_integer_t) override { return value("a number"); }
  bool number_unsigned(number_unsigned_t) override { return value("a number"); }
  bool number_float(number_float_t, const string_t&) override { return value("a number"); }
  bool binary(binary_t&) override { return value("bytes"); }
  bool string(string_t& s) override {
    if (!value("a string")) return false;
    if (depth_ == 1 && mine_) text = std::move(s), other_type.clear();
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ == 0) is_object = true;
    if (depth_ == 1) (void)value("an object");
    ++depth_;
    return true;
  }
  bool end_object() override { return --depth_, true; }
  bool start_array(std::size_t) override {
    if (depth_ == 1) (void)value("an array");
    ++depth_;
    return true;
  }
  bool end_array() override { return --depth_, true; }
  bool key(string_t& k) override {
    if (depth_ == 1) mine_ = k == wanted_;
    if (depth_ == 1 && keys != nullptr && keys->size() < most_shown_keys) keys->push_back(core::shown(k));
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const json::exception&) override {
    broken_at = at;
    return false;
  }

 private:
  bool value(const char* type) {
    if (depth_ == 1 && mine_) text.reset(), other_type = type;
    return true;
  }

  const std::string& wanted_;
  uint64_t depth_ = 0;
  bool mine_ = false;
};

/// A line without its end, and the byte where the next line begins. A line longer than max_json_line_bytes is returned
/// in part, but with more than that limit.
struct json_line {
  std::string_view text;
  uint64_t next = 0;
};

core::result<json_line> line_at(text_window& content, uint64_t from) {
  for (uint64_t wanted = 1;;) {
    TROUPE_ASSIGN(const auto text, content.at(from, wanted));
    const auto end = text.find('\n');
    if (end != std::string_view::npos || text.size() > max_json_line_bytes || from + text.size() == content.size()) {
      const auto line = text.substr(0, end);
      const auto single = line.find('\r');  // a lone \r ends a line: JSON strings contain none
      if (single != std::string_view::npos && single + 1 < line.size())
        return json_line{line.substr(0, single), from + single + 1};
      return json_line{line, from + line.size() + 1};
    }
    wanted = 2 * text.size();
  }
}

/// True if the word is a number by JSON's grammar, however large it is.
bool is_json_number(std::string_view word) {
  size_t at = word.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const size_t first = at;
    while (at < word.size() && word[at] >= '0' && word[at] <= '9') ++at;
    return at - first;
  };
  const size_t whole_at = at, whole = digits();
  if (whole == 0 || (whole > 1 && word[whole_at] == '0')) return false;
  if (at < word.size() && word[at] == '.' && (++at, digits() == 0)) return false;
  if (at < word.size() && core::ascii_lower(word[at]) == 'e') {
    ++at;
    if (at < word.size() && (word[at] == '+' || word[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == word.size();
}

/// Returns `object` with each bare word outside of its strings, a number or a name, replaced by what `other` returns.
std::string with_words(std::string_view object, const std::function<std::string_view(std::string_view)>& other) {
  std::string out;
  bool in_string = false;
  for (size_t at = 0; at < object.size();) {
    const char c = object[at];
    if (in_string || !(core::is_ascii_word(c) || c == '-')) {
      if (in_string && c == '\\' && at + 1 < object.size()) out += object[at++];
      if (c == '"') in_string = !in_string;
      out += object[at++];
      continue;
    }
    size_t end = at + 1;
    while (end < object.size() &&
           (core::is_ascii_word(object[end]) || object[end] == '+' || object[end] == '-' || object[end] == '.'))
      ++end;
    out += other(object.substr(at, end - at));
    at = end;
  }
  return out;
}

/// Returns `object` with zeros in place of its numbers, and of NaN and Infinity, which Python writes and JSON does not
/// have. Numbers beyond the range of a double (1e999) then cause no error.
std::string with_zeros(std::string_view object) {
  return with_words(object, [](std::string_view word) -> std::string_view {
    const bool is_number = word == "NaN" || word == "Infinity" || word == "-Infinity" || is_json_number(word);
    return is_number ? "0" : word;
  });
}

tl::unexpected<core::error> wrong_row(std::string_view place, const std::string& why) {
  return core::refused(std::string(place) + why);
}

/// Finds the rows of one file of JSON, which are either its lines or the elements of one array.
class json_row_reader {
 public:
  json_row_reader(const std::string& file, const std::function<core::result<void>(const json_row&)>& visit)
      : file_(file), visit_(visit) {}

  core::result<void> read_lines(text_window& content) {
    uint64_t number = 0;
    for (uint64_t at = 0; at < content.size();) {
      ++number;
      TROUPE_ASSIGN(const auto line, line_at(content, at));
      const std::string place = fmt::format("{}:{}", file_, number);
      if (line.text.size() > max_json_line_bytes)
        return wrong_row(place, fmt::format(": the line has more than {} bytes", max_json_line_bytes));
      at = line.next;
      if (line.text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      TROUPE_TRY(visit_({line.text, place, std::min<uint64_t>(at, content.size())}));
    }
    return {};
  }

  /// Reads an array; `at` is the byte after its opening bracket.
  core::result<void> read_array(text_window& content, uint64_t at) {
    for (uint64_t number = 1;; ++number) {
      const std::string place = fmt::format("{}: element {}", file_, number);
      TROUPE_ASSIGN(const auto begin, next_character(content, at));
      at = begin.at;
      if (begin.character == ']' && number == 1) return end_of_array(content, at + 1);
      TROUPE_ASSIGN(const auto element, element_at(content, at));
      if (element.size() > max_json_line_bytes)
        return wrong_row(place, fmt::format(": it has more than {} bytes", max_json_line_bytes));
      const uint64_t end = at + element.size();
      if (end == content.size()) return wrong_row(file_, ": the array has no end: the file is cut short");
      TROUPE_TRY(visit_({element, place, end, true}));
      TROUPE_ASSIGN(const auto behind, next_character(content, end));
      at = behind.at + 1;
      if (behind.character == ']') return end_of_array(content, at);
    }
  }

 private:
  struct seen_character {
    uint64_t at = 0;
    char character = 0;  ///< character at byte `at`; 0: end of the file
  };

  static core::result<seen_character> next_character(text_window& content, uint64_t at) {
    while (at < content.size()) {
      TROUPE_ASSIGN(const auto text, content.at(at, 1));
      const auto found = text.find_first_not_of(" \t\r\n");
      if (found != std::string_view::npos) return seen_character{at + found, text[found]};
      at += text.size();
    }
    return seen_character{content.size(), 0};
  }

  core::result<void> end_of_array(text_window& content, uint64_t at) const {
    TROUPE_ASSIGN(const auto more, next_character(content, at));
    if (more.character == 0) return {};
    return wrong_row(file_, fmt::format(": byte {}: something follows the end of the array", more.at + 1));
  }

  /// Returns the text of the array element that begins at byte `from`: up to the comma or bracket after it, or to the
  /// end of the file if neither follows.
  static core::result<std::string_view> element_at(text_window& content, uint64_t from) {
    uint64_t depth = 0, done = 0;
    bool in_string = false, is_escaped = false;
    for (uint64_t wanted = 1;;) {
      const auto text = content.at(from, wanted);
      if (!text) return text;
      for (; done < text->size(); ++done) {
        const char c = (*text)[done];
        if (in_string) {
          if (!is_escaped && c == '"') in_string = false;
          is_escaped = !is_escaped && c == '\\';
          continue;
        }
        if (depth == 0 && (c == ',' || c == ']')) return text->substr(0, done);
        if (c == '"') in_string = true;
        if (c == '{' || c == '[') ++depth;
        if ((c == '}' || c == ']') && depth > 0) --depth;
      }
      if (text->size() > max_json_line_bytes || from + text->size() == content.size()) return text;
      wanted = 2 * text->size();
    }
  }

  const std::string& file_;
  const std::function<core::result<void>(const json_row&)>& visit_;
};

/// Returns the keys of an object, for an error about a missing key.
std::string keys_in(std::string_view object, const std::string& wanted) {
  std::vector<std::string> keys;
  text_taker taker(wanted);
  taker.keys = &keys;
  (void)json::sax_parse(with_zeros(object), &taker);
  if (keys.empty()) return "";
  return fmt::format(": it has {}; data.text_key (--text-key) names another key", fmt::join(keys, ", "));
}

/// Returns the text under `key` of the object in `row`; nullopt if it is null.
core::result<std::optional<std::string>> text_in(const json_row& row, const std::string& key) {
  const std::string_view object = row.text;
  std::optional<text_taker> taker(std::in_place, key);
  if (!json::sax_parse(object, &*taker)) {
    const size_t broken_at = taker->broken_at;
    const std::string mended = with_zeros(object);
    taker.emplace(key);
    if (!json::sax_parse(mended, &*taker))
      return wrong_row(
          row.place,
          fmt::format(":{}: broken JSON: {}{}", broken_at,
                      row.is_element ? "wanted one whole object" : "wanted one object per line, or an array of objects",
                      core::utf8_prefix(object) == object.size() ? "" : "; its text is not UTF-8"));
  }
  if (!taker->is_object) return wrong_row(row.place, fmt::format(": wanted an object with the text under '{}'", key));
  if (taker->other_type == "null") return std::optional<std::string>();
  if (!taker->other_type.empty())
    return wrong_row(row.place, fmt::format(": wanted text under '{}', got {}", key, taker->other_type));
  if (!taker->text)
    return wrong_row(row.place,
                     fmt::format(": no key '{}', wanted the document's text there{}", key, keys_in(object, key)));
  return std::move(taker->text);
}

}  // namespace

std::string with_nulls(std::string_view object) {
  return with_words(object, [](std::string_view word) -> std::string_view { return word == "NaN" ? "null" : word; });
}

core::result<void> read_json_rows(text_window&& content, const std::string& file,
                                  const std::function<core::result<void>(const json_row&)>& visit) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  json_row_reader reader(file, visit);
  TROUPE_ASSIGN(const auto begin, content.at(0, window_block_bytes));
  const size_t mark = begin.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  const size_t first = begin.find_first_not_of(" \t\r\n", mark);
  if (first != std::string_view::npos && begin[first] == '[') return reader.read_array(content, first + 1);
  return reader.read_lines(content);
}

core::result<void> read_json_lines(text_window&& content, const std::string& file, const std::string& key,
                                   const std::function<core::result<void>(std::string_view, uint64_t)>& visit) {
  return read_json_rows(std::move(content), file, [&](const json_row& row) -> core::result<void> {
    TROUPE_ASSIGN(const auto text, text_in(row, key));
    return text ? visit(*text, row.end) : core::result<void>();
  });
}

}  // namespace troupe::data
