// Converts values to text: HTML, numbers for JSON, and short figures for display. JSON strings are in core/text.hpp.
// Texts such as names of tensors come from files and may contain any bytes.
#pragma once

#include <string>
#include <string_view>

#include "core/text.hpp"

namespace troupe::telemetry {

using core::json_string;
using core::text_of;

/// Returns a number that reads back to the same bits; "null" if it is not finite.
std::string json_number(double x);

/// Returns text for an HTML page, inside elements and quoted attributes alike: markup is escaped, control characters
/// and invalid UTF-8 become U+FFFD; line ends and tabs are kept.
std::string html_escaped(std::string_view s);

/// Returns a short number for axes and figures: 12, 1,234, 12.3k, 4.56M, 7.8G.
std::string short_number(double x);

/// Returns a duration as 1:02:03 or 2:03; below a minute as 4.2 s.
std::string duration_text(double seconds);

}  // namespace troupe::telemetry
