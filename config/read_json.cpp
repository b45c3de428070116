// JSON into nodes, through nlohmann's events. The library tells no positions with them, so the reader
// watches how far it has read and steps over the blank in front of each token.
#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>

#include "config/text_form.hpp"
#include "config/tree_builder.hpp"

namespace troupe::config {
namespace {

using json = nlohmann::json;

/// An iterator over text that tells how far its latest copy has come.
class watched {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  watched(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  watched& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  watched operator++(int) {
    watched before = *this;
    ++*this;
    return before;
  }
  bool operator==(const watched& other) const { return at_ == other.at_; }
  bool operator!=(const watched& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

class json_events {
 public:
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  json_events(std::string_view text, tree_builder& builder)
      : reached(text.data()), text_(text), done_(text.data()), builder_(builder) {}

  bool null() { return plain(node_kind::null); }
  bool boolean(bool /*value*/) { return plain(node_kind::plain); }
  bool number_integer(number_integer_t /*value*/) { return plain(node_kind::plain); }
  bool number_unsigned(number_unsigned_t /*value*/) { return plain(node_kind::plain); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) { return plain(node_kind::plain); }
  bool string(string_t& value) { return quoted(value); }
  bool key(string_t& value) { return quoted(value); }
  bool binary(binary_t& /*value*/) { return false; }
  bool start_object(size_t /*elements*/) { return open(node_kind::mapping); }
  bool start_array(size_t /*elements*/) { return open(node_kind::sequence); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(size_t position, const std::string& last_token, const nlohmann::detail::exception& /*why*/) {
    const size_t offset = std::min(position > 0 ? position - 1 : 0, text_.size());
    std::string token = last_token;
    for (char& c : token)
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    if (token.size() > 40) token = token.substr(token.size() - 40);
    throw refusal{place_of(text_.data() + offset), token.empty() || offset >= text_.size()
                                                       ? "not readable as JSON: the text ends too early"
                                                       : "not readable as JSON here: '" + token + "'"};
  }

  const char* reached;  ///< behind the last character that the parser took

 private:
  bool plain(node_kind kind) {
    const place where = start();
    const char* end = last_;
    // A number is known to end only when the character behind it was read.
    const auto part_of_token = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '+';
    };
    while (end < text_.data() + text_.size() && part_of_token(*end)) ++end;
    builder_.scalar(kind, kind == node_kind::null ? "" : std::string(last_, end), where);
    done_ = end;
    return true;
  }
  bool quoted(string_t& value) {
    builder_.scalar(node_kind::quoted, std::move(value), start());
    done_ = reached;
    return true;
  }
  bool open(node_kind kind) {
    builder_.open(kind, start());
    done_ = last_ + 1;
    return true;
  }
  bool close() {
    start();
    builder_.close();
    done_ = last_ + 1;
    return true;
  }

  /// Steps from the end of the last token over blank, comments, ',' and ':' to the start of this one.
  place start() {
    const char* end = text_.data() + text_.size();
    const char* p = done_;
    while (p < end) {
      if (*p == '/' && p + 1 < end && p[1] == '/') {
        while (p < end && *p != '\n') ++p;
      } else if (*p == '/' && p + 1 < end && p[1] == '*') {
        const size_t close_at = text_.find("*/", static_cast<size_t>(p - text_.data()) + 2);
        p = close_at == std::string_view::npos ? end : text_.data() + close_at + 2;
      } else if (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r' || *p == ',' || *p == ':') {
        ++p;
      } else if (p == text_.data() && text_.starts_with("\xEF\xBB\xBF")) {
        p += 3;
      } else {
        break;
      }
    }
    last_ = p;
    return place_of(p);
  }

  /// Counts on from the last place that was asked for: tokens come in order.
  place place_of(const char* p) {
    if (p < counted_to_) {
      counted_to_ = text_.data();
      line_ = column_ = 1;
    }
    for (; counted_to_ < p; ++counted_to_) {
      if (*counted_to_ == '\n') {
        ++line_;
        column_ = 1;
      } else if ((static_cast<unsigned char>(*counted_to_) & 0xC0U) != 0x80) {
        ++column_;
      }
    }
    return builder_.at(line_, column_);
  }

  std::string_view text_;
  const char* done_;
  const char* last_ = nullptr;
  const char* counted_to_ = text_.data();
  int line_ = 1, column_ = 1;
  tree_builder& builder_;
};

}  // namespace

document read_json(std::string_view given, uint32_t source) {
  tree_builder builder(source);
  try {
    if (const auto reason = unreadable(given, source)) throw *reason;
    const std::string text = without_hjson(given);
    json_events events(text, builder);
    json::sax_parse(watched(text.data(), &events.reached), watched(text.data() + text.size(), &events.reached), &events,
                    nlohmann::detail::input_format_t::json, /*strict=*/true, /*ignore_comments=*/true);
    return builder.take();
  } catch (const refusal& r) {
    return {nullptr, {{r.at, "", r.text}}};
  }
}

}  // namespace troupe::config
