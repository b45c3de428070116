#include "data/templates/date_text.hpp"

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <optional>

#include "core/clock.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

namespace troupe::data::templates {
namespace {

constexpr std::array<std::string_view, 7> day_names{"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                    "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> month_names{"January",   "February", "March",    "April",
                                                       "May",       "June",     "July",     "August",
                                                       "September", "October",  "November", "December"};
constexpr std::array<int, 12> days_before{0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};

bool is_leap(int year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

int days_of(int year, int month) {
  constexpr std::array<int, 12> days{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return days[static_cast<size_t>(month - 1)] + (month == 2 && is_leap(year) ? 1 : 0);
}

/// Returns the day of the year, from 1.
int day_of_year(const calendar_time& t) {
  return days_before[static_cast<size_t>(t.month - 1)] + t.day + (t.month > 2 && is_leap(t.year) ? 1 : 0);
}

/// Returns the day of the week, from 0 for Sunday.
int weekday(const calendar_time& t) {
  const int before = t.year - 1;
  return (before + before / 4 - before / 100 + before / 400 + day_of_year(t)) % 7;
}

/// Removes `digits` digits from the front of `text` and returns their number.
std::optional<int> take_digits_of(std::string_view& text, size_t digits) {
  const auto out = text.size() < digits ? std::nullopt : core::number_of<int>(text.substr(0, digits));
  if (out) text.remove_prefix(digits);
  return out && *out >= 0 ? out : std::nullopt;
}

bool take_character(std::string_view& text, char sign) {
  if (!text.starts_with(sign)) return false;
  text.remove_prefix(1);
  return true;
}

/// Returns the text of one mark; nullopt for one that is not supported.
std::optional<std::string> date_mark(char mark, bool is_padded, const calendar_time& t) {
  const auto number = [&](int x, int width) { return is_padded ? fmt::format("{:0{}}", x, width) : fmt::to_string(x); };
  const auto month = month_names[static_cast<size_t>(t.month - 1)];
  const auto day = day_names[static_cast<size_t>(weekday(t))];
  const int hour = t.hour % 12 == 0 ? 12 : t.hour % 12;
  if (mark == 'd') return number(t.day, 2);
  if (mark == 'm') return number(t.month, 2);
  if (mark == 'H') return number(t.hour, 2);
  if (mark == 'I') return number(hour, 2);
  if (mark == 'M') return number(t.minute, 2);
  if (mark == 'S') return number(t.second, 2);
  if (mark == 'j') return number(day_of_year(t), 3);
  if (mark == 'y') return number(t.year % 100, 2);
  if (!is_padded) return std::nullopt;
  if (mark == 'Y') return fmt::to_string(t.year);
  if (mark == 'B') return std::string(month);
  if (mark == 'b' || mark == 'h') return std::string(month.substr(0, 3));
  if (mark == 'A') return std::string(day);
  if (mark == 'a') return std::string(day.substr(0, 3));
  if (mark == 'p') return std::string(t.hour < 12 ? "AM" : "PM");
  if (mark == 'e') return fmt::format("{:2}", t.day);
  if (mark == 'F') return fmt::format("{}-{:02}-{:02}", t.year, t.month, t.day);
  if (mark == 'T') return fmt::format("{:02}:{:02}:{:02}", t.hour, t.minute, t.second);
  if (mark == 'R') return fmt::format("{:02}:{:02}", t.hour, t.minute);
  if (mark == 'D') return fmt::format("{:02}/{:02}/{:02}", t.month, t.day, t.year % 100);
  if (mark == 'u') return fmt::to_string(weekday(t) == 0 ? 7 : weekday(t));
  if (mark == 'w') return fmt::to_string(weekday(t));
  if (mark == 'n') return std::string("\n");
  if (mark == 't') return std::string("\t");
  if (mark == '%') return std::string("%");
  return std::nullopt;
}

}  // namespace

core::result<calendar_time> calendar_time_of(std::string_view text) {
  std::string_view rest = text;
  const auto refused = [&] {
    return core::refused(fmt::format("wanted a time such as '2026-01-31 23:59:58', got '{}'", core::shown(text)));
  };
  calendar_time out;
  const auto year = take_digits_of(rest, 4);
  if (!year || *year < 1000 || !take_character(rest, '-')) return refused();
  const auto month = take_digits_of(rest, 2);
  if (!month || *month < 1 || *month > 12 || !take_character(rest, '-')) return refused();
  const auto day = take_digits_of(rest, 2);
  if (!day || *day < 1 || *day > days_of(*year, *month)) return refused();
  out.year = *year;
  out.month = *month;
  out.day = *day;
  if (rest.empty()) return out;
  if (!take_character(rest, ' ')) return refused();
  const auto hour = take_digits_of(rest, 2);
  if (!hour || *hour > 23 || !take_character(rest, ':')) return refused();
  const auto minute = take_digits_of(rest, 2);
  if (!minute || *minute > 59 || !take_character(rest, ':')) return refused();
  const auto second = take_digits_of(rest, 2);
  if (!second || *second > 59 || !rest.empty()) return refused();
  out.hour = *hour;
  out.minute = *minute;
  out.second = *second;
  return out;
}

calendar_time local_time() {
  const auto now = static_cast<std::time_t>(core::unix_seconds());
  std::tm parts{};
  ::localtime_r(&now, &parts);
  return {parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
          parts.tm_hour,        parts.tm_min,     parts.tm_sec > 59 ? 59 : parts.tm_sec};
}

core::result<std::string> date_text(std::string_view format, const calendar_time& time) {
  std::string out;
  while (!format.empty()) {
    if (format[0] != '%') {
      out += format[0];
      format.remove_prefix(1);
      continue;
    }
    const bool is_padded = !format.starts_with("%-");
    const size_t length = is_padded ? 2 : 3;
    const auto part = format.size() < length ? std::nullopt : date_mark(format[length - 1], is_padded, time);
    if (!part)
      return core::refused(
          fmt::format("strftime_now: the mark '{}' is not supported", core::shown(format.substr(0, length))));
    out += *part;
    format.remove_prefix(length);
  }
  return out;
}

}  // namespace troupe::data::templates
