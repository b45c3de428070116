// Values as text that others read: JSON, HTML, short figures for people. Names come from files: anything may be in
// them.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

namespace troupe::telemetry {

/// printf into a string; at most 511 characters.
std::string text_of(const char* pattern, auto... xs) {
  char text[512];
  const int n = std::snprintf(text, sizeof text, pattern, xs...);
  return {text, static_cast<size_t>(std::clamp(n, 0, int(sizeof text) - 1))};
}

/// A number that reads back to the same bits; "null" when it is not finite.
std::string json_number(double x);

/// With its quotes. Bytes beyond ASCII as Latin-1: a byte model's text need not be UTF-8.
std::string json_string(std::string_view s);

/// Text for an HTML page, inside elements and quoted attributes alike: markup escaped, control characters and what is
/// not UTF-8 replaced by U+FFFD; line ends and tabs stay.
std::string html_escaped(std::string_view s);

/// 12, 1,234, 12.3k, 4.56M, 7.8G: short, for axes and figures.
std::string short_number(double x);

/// 1:02:03, 2:03, or 4.2 s below a minute.
std::string duration_text(double seconds);

}  // namespace troupe::telemetry
