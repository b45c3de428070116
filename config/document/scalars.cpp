#include "config/document/scalars.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/number.hpp"

namespace troupe::config {
namespace {

template <class T>
std::optional<T> number_from(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return core::number_of<T>(text);
}

/// A suffix and its factor for `with_unit`, which reads texts like `4GiB` with units {{"GiB", 2^30}, ...}; a bare
/// number is already in the base unit.
struct unit {
  std::string_view name;
  double factor;
};
std::optional<double> with_unit(const node& value, std::initializer_list<unit> units) {
  if (const auto bare = number_in(value)) return bare;
  if (!value.is_scalar()) return std::nullopt;
  for (const unit& u : units) {
    std::string_view text = value.text;
    if (!text.ends_with(u.name)) continue;
    text.remove_suffix(u.name.size());
    while (text.ends_with(' ')) text.remove_suffix(1);
    const auto number = number_from<double>(text);
    if (!number || !std::isfinite(*number)) continue;  // "5ms" also ends with the unit "s", but "5m" is no number
    return *number * u.factor;
  }
  return std::nullopt;
}

/// Returns the whole number that a decimal text without a sign, such as `2.50e1`, denotes; nullopt for a text that is
/// no number, for a fraction and beyond 64 bits. The digits are counted, because a double rounds numbers above 2^53.
std::optional<uint64_t> exact_whole(std::string_view text) {
  constexpr size_t digits_max = 20;  // number of digits of 2^64
  constexpr std::string_view begins = ".0123456789";
  if (text.empty() || begins.find(text.front()) == begins.npos || !core::number_of<double>(text)) return std::nullopt;
  const size_t mark = std::min(text.find_first_of("eE"), text.size());
  const std::string_view mantissa = text.substr(0, mark);
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  std::string digits(mantissa.substr(0, point));
  digits += mantissa.substr(std::min(point + 1, mantissa.size()));
  const size_t zeros = std::min(digits.find_first_not_of('0'), digits.size());
  if (zeros == digits.size()) return 0;
  const auto exponent = mark == text.size() ? std::optional<int32_t>(0) : number_from<int32_t>(text.substr(mark + 1));
  if (!exponent) return std::nullopt;
  // The number of digits in front of the point, after the exponent has moved it.
  const int64_t places = static_cast<int64_t>(point) + *exponent;
  if (places <= static_cast<int64_t>(zeros) || places > static_cast<int64_t>(zeros + digits_max)) return std::nullopt;
  const auto count = static_cast<size_t>(places);
  if (digits.size() > count && digits.find_first_not_of('0', count) != std::string::npos) return std::nullopt;
  digits.resize(count, '0');
  return core::number_of<uint64_t>(std::string_view(digits).substr(zeros));
}

}  // namespace

bool is_text(const node& value) {
  return value.kind == node_kind::quoted || (value.kind == node_kind::plain && !boolean_in(value));
}

std::optional<double> seconds_in(const node& value) {
  return with_unit(value, {{"ms", 1e-3}, {"min", 60}, {"h", 3600}, {"s", 1}});
}

std::optional<uint64_t> bytes_in(const node& value) {
  if (const auto plain = integer_in(value)) return plain->negative ? std::nullopt : std::optional(plain->magnitude);
  const auto scaled = with_unit(value, {{"KiB", 1024.0},
                                        {"MiB", 1048576.0},
                                        {"GiB", 1073741824.0},
                                        {"TiB", 1099511627776.0},
                                        {"kB", 1e3},
                                        {"KB", 1e3},
                                        {"MB", 1e6},
                                        {"GB", 1e9},
                                        {"TB", 1e12}});
  // The product with a unit is exact up to 2^53.
  if (!scaled || *scaled < 0 || *scaled > 0x1p53 || *scaled != std::floor(*scaled)) return std::nullopt;
  return static_cast<uint64_t>(*scaled);
}

bool is_auto(const node& value) { return value.is_scalar() && value.text == "auto"; }

std::optional<double> number_in(const node& value) {
  if (value.kind != node_kind::plain) return std::nullopt;
  const auto number = number_from<double>(value.text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::optional<whole> integer_in(const node& value) {
  if (value.kind != node_kind::plain) return std::nullopt;
  std::string_view digits = value.text;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  const auto exact = exact_whole(digits);
  return exact ? std::optional(whole{negative && *exact != 0, *exact}) : std::nullopt;
}

std::optional<bool> boolean_in(const node& value) {
  if (value.kind != node_kind::plain) return std::nullopt;
  if (value.text == "true" || value.text == "True" || value.text == "TRUE") return true;
  if (value.text == "false" || value.text == "False" || value.text == "FALSE") return false;
  return std::nullopt;
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace troupe::config
