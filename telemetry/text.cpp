#include "telemetry/text.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>

namespace troupe::telemetry {
std::string json_number(double x) {
  if (!std::isfinite(x)) return "null";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, x);
  return {text, end.ptr};
}

std::string html_escaped(std::string_view s) {
  std::string out;
  out.reserve(s.size() + s.size() / 8);
  while (!s.empty()) {
    const size_t n = core::utf8_character(s);
    const char c = s[0];
    if (n == 0 || (n == 1 && core::is_ascii_control(c) && c != '\n' && c != '\t'))
      out += "\xEF\xBF\xBD";
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else
      out += s.substr(0, n);
    s.remove_prefix(std::max<size_t>(1, n));
  }
  return out;
}

std::string short_number(double x) {
  if (!std::isfinite(x)) return "-";
  const double size = std::abs(x);
  if (size >= 999.5) {
    constexpr const char* units[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t unit = 0;
    double value = x;
    while (unit + 1 < std::size(units) && std::abs(value) >= 999.5) {
      value /= 1000;
      ++unit;
    }
    return text_of(std::abs(value) < 9.995   ? "%.2f%s"
                   : std::abs(value) < 99.95 ? "%.1f%s"
                                             : "%.0f%s",
                   value, units[unit]);
  }
  if (size > 0 && size < 1e-3) return text_of("%.2e", x);
  if (x == std::round(x)) return text_of("%.0f", x);
  return text_of("%.*f", size < 1 ? 4 : size < 10 ? 3 : size < 100 ? 2 : 1, x);
}

std::string duration_text(double seconds) {
  if (!(seconds >= 0)) seconds = 0;
  if (seconds < 59.95) return text_of("%.1f s", seconds);
  const auto s = static_cast<uint64_t>(seconds + 0.5);
  if (s >= 3600) return text_of("%llu:%02llu:%02llu", s / 3600ULL, s / 60ULL % 60, s % 60ULL);
  return text_of("%llu:%02llu", s / 60ULL, s % 60ULL);
}

}  // namespace troupe::telemetry
