// Values as text that others read: HTML, short figures for people; JSON by core/text.hpp. Names come from files:
// anything may be in them.
#pragma once

#include <string>
#include <string_view>

#include "core/text.hpp"

namespace troupe::telemetry {

using core::json_string;
using core::text_of;

/// A number that reads back to the same bits; "null" when it is not finite.
std::string json_number(double x);

/// Text for an HTML page, inside elements and quoted attributes alike: markup escaped, control characters and what is
/// not UTF-8 replaced by U+FFFD; line ends and tabs stay.
std::string html_escaped(std::string_view s);

/// 12, 1,234, 12.3k, 4.56M, 7.8G: short, for axes and figures.
std::string short_number(double x);

/// 1:02:03, 2:03, or 4.2 s below a minute.
std::string duration_text(double seconds);

}  // namespace troupe::telemetry
