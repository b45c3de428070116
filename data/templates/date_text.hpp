// The date and time that `strftime_now` writes.
#pragma once

#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::data::templates {

/// A time of a calendar, without a time zone.
struct calendar_time {
  int year = 1970, month = 1, day = 1;  ///< month and day from 1
  int hour = 0, minute = 0, second = 0;
};

/// Returns the time of a text `2026-01-31 23:59:58`, or of its date alone. Fails for any other text.
core::result<calendar_time> calendar_time_of(std::string_view text);
/// Returns the local time.
calendar_time local_time();

/// Returns the time in a format of strftime(), with English names. Fails for a mark that is not supported.
core::result<std::string> date_text(std::string_view format, const calendar_time& time);

}  // namespace troupe::data::templates
