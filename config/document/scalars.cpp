#include "config/document/scalars.hpp"

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
  if (!scaled || *scaled < 0 || *scaled >= 1e18 || *scaled != std::floor(*scaled)) return std::nullopt;
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
  if (negative) digits.remove_prefix(1);
  if (!digits.starts_with('-') && !(negative && digits.starts_with('+')))
    if (const auto exact = number_from<uint64_t>(digits)) return whole{negative && *exact != 0, *exact};
  const auto number = number_in(value);
  if (!number || std::fabs(*number) >= 0x1p64 || *number != std::floor(*number)) return std::nullopt;
  return whole{*number < 0, static_cast<uint64_t>(std::fabs(*number))};
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
