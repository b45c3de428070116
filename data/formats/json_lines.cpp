// A line is parsed as events, so that nothing but its text is ever built.
#include "data/formats/json_lines.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

namespace troupe::data {
namespace {

using nlohmann::json;

/// Takes the one string it is asked for out of a line, and builds nothing else.
class text_taker final : public nlohmann::json_sax<json> {
 public:
  explicit text_taker(const std::string& wanted) : wanted_(wanted) {}

  std::optional<std::string> text;
  bool is_object = false;
  std::string other_type;  ///< of the key's value where that is no string
  size_t broken_at = 0;    ///< byte of the line, from 1

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

/// The line at `from` without its end; more than max_json_line_bytes of it where it is longer than those.
core::result<std::string_view> line_at(text_window& content, uint64_t from) {
  for (uint64_t wanted = 1;;) {
    const auto text = content.at(from, wanted);
    if (!text) return text;
    const auto end = text->find('\n');
    if (end != std::string_view::npos) return text->substr(0, end);
    if (text->size() > max_json_line_bytes || from + text->size() == content.size()) return text;
    wanted = 2 * text->size();
  }
}

}  // namespace

core::result<void> read_json_lines(text_window&& content, const std::string& file, const std::string& key,
                                   const std::function<core::result<void>(std::string_view, uint64_t)>& visit,
                                   null_text nulls) {
  uint64_t number = 0;
  for (uint64_t at = 0; at < content.size();) {
    ++number;
    const auto wrong = [&](const std::string& why) {
      return core::fail(core::error_kind::bad_input, fmt::format("{}:{}{}", file, number, why));
    };
    const auto read = line_at(content, at);
    if (!read) return core::fail(read.error());
    const std::string_view line = *read;
    if (line.size() > max_json_line_bytes)
      return wrong(fmt::format(": the line has more than {} bytes", max_json_line_bytes));
    at += line.size() + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    text_taker taker(key);
    if (!json::sax_parse(line, &taker))
      return wrong(fmt::format(":{}: broken JSON: wanted one whole object a line", taker.broken_at));
    if (!taker.is_object) return wrong(fmt::format(": wanted an object with the text under '{}'", key));
    if (nulls == null_text::passed_over && taker.other_type == "null") continue;
    if (!taker.other_type.empty()) return wrong(fmt::format(": wanted text under '{}', got {}", key, taker.other_type));
    if (!taker.text) return wrong(fmt::format(": no key '{}', wanted the document's text there", key));
    if (auto ok = visit(*taker.text, std::min<uint64_t>(at, content.size())); !ok) return ok;
  }
  return {};
}

}  // namespace troupe::data
