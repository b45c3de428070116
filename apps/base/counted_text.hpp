// Shows the text of a sample of which only some tokens count: dimmed on a terminal, between marks elsewhere.
#pragma once

#include <string>
#include <string_view>

namespace troupe::apps {

/// Writes the parts of a sample one after the other.
class counted_writer {
 public:
  /// `dims`: parts that do not count are dimmed by the terminal; else parts that count are between `[[` and `]]`.
  explicit counted_writer(bool dims) : dims_(dims) {}

  /// Adds a part of the text. Control characters other than line breaks and tabs are shown as \x1b is.
  void add(std::string_view text, bool counts) {
    if (text.empty()) return;
    if (dims_ && !counts) out_ += "\x1b[2m";
    if (!dims_ && counts) out_ += "[[";
    for (const char c : text) put(c);
    if (dims_ && !counts) out_ += "\x1b[0m";
    if (!dims_ && counts) out_ += "]]";
  }
  [[nodiscard]] const std::string& text() const { return out_; }

 private:
  void put(char c) {
    constexpr std::string_view digits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if ((byte >= 0x20 && byte != 0x7F) || c == '\n' || c == '\t')
      out_ += c;
    else
      ((out_ += "\\x") += digits[byte >> 4]) += digits[byte & 15];
  }

  bool dims_;
  std::string out_;
};

}  // namespace troupe::apps
