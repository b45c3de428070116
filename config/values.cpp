#include "config/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

namespace troupe::config {
namespace {

template <class T>
std::optional<T> number_from(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// `4GiB` with units {{"GiB", 2^30}, ...}; a bare number counts as `base`.
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
    if (!number || !std::isfinite(*number)) continue;  // "5ms" ends with "s" as well
    return *number * u.factor;
  }
  return std::nullopt;
}

bool in_range(const key_info& key, double v) {
  if (!std::isfinite(v)) return false;
  if (key.range.least && (key.range.above_least ? v <= *key.range.least : v < *key.range.least)) return false;
  return !(key.range.most && (key.range.below_most ? v >= *key.range.most : v > *key.range.most));
}

/// The limits of a field's type, beyond its key's range.
bool fits_field(const key_info& key, const whole& v) {
  if (std::holds_alternative<field_of<uint32_t>>(key.target.field))
    return !v.negative && v.magnitude <= std::numeric_limits<uint32_t>::max();
  if (std::holds_alternative<field_of<int64_t>>(key.target.field)) return v.magnitude <= uint64_t{INT64_MAX};
  if (std::holds_alternative<field_of<uint64_t>>(key.target.field) ||
      std::holds_alternative<field_of<std::optional<uint64_t>>>(key.target.field))
    return !v.negative;
  return true;
}

double as_double(const whole& v) {
  const auto magnitude = static_cast<double>(v.magnitude);
  return v.negative ? -magnitude : magnitude;
}

node_ptr checked_choice(const key_info& key, const node_ptr& value, const std::string& text) {
  if (key.choices.names.empty()) return value;
  for (const std::string_view choice : key.choices.names)
    if (key.choices.any_case ? lower(choice) == lower(text) : choice == text)
      return make_scalar(node_kind::quoted, std::string(choice), value->at);
  return nullptr;
}

bool is_text(const node& value) {
  return value.kind == node_kind::quoted || (value.kind == node_kind::plain && !boolean_in(value));
}

}  // namespace

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

node_ptr checked(const key_info& key, const node_ptr& value) {
  switch (key.type) {
    case value_type::boolean:
      return boolean_in(*value) ? value : nullptr;
    case value_type::integer: {
      const auto v = integer_in(*value);
      return v && in_range(key, as_double(*v)) && fits_field(key, *v) ? value : nullptr;
    }
    case value_type::number: {
      const auto v = number_in(*value);
      return v && in_range(key, *v) ? value : nullptr;
    }
    case value_type::text:
      if (const auto v = key.choices.or_number ? integer_in(*value) : std::nullopt)
        return in_range(key, as_double(*v)) ? value : nullptr;
      return is_text(*value) ? checked_choice(key, value, value->text) : nullptr;
    case value_type::path:
      return is_text(*value) && (!value->text.empty() || key.default_text == "\"\"") ? value : nullptr;
    case value_type::number_list: {
      if (value->kind != node_kind::sequence || value->items.size() != key.choices.names.size()) return nullptr;
      const bool all = std::all_of(value->items.begin(), value->items.end(), [&](const node_ptr& item) {
        const auto v = number_in(*item);
        return v && in_range(key, *v);
      });
      return all ? value : nullptr;
    }
    case value_type::integers:
    case value_type::text_or_integers:
    case value_type::texts: {
      const auto fits = [&](const node_ptr& item) {
        if (key.type == value_type::texts) return is_text(*item) && checked_choice(key, item, item->text) != nullptr;
        const auto v = integer_in(*item);
        return v && in_range(key, as_double(*v));
      };
      if (key.type == value_type::texts && is_text(*value)) return fits(value) ? value : nullptr;
      if (key.type == value_type::text_or_integers && is_text(*value)) return value;
      return value->kind == node_kind::sequence && std::all_of(value->items.begin(), value->items.end(), fits)
                 ? value
                 : nullptr;
    }
    case value_type::dtype: {
      const auto type = value->is_scalar() ? core::float_dtype_from(value->text) : std::nullopt;
      return type ? checked_choice(key, make_scalar(node_kind::quoted, std::string(core::name_of(*type)), value->at),
                                   std::string(core::name_of(*type)))
                  : nullptr;
    }
    case value_type::seconds: {
      const auto v = seconds_in(*value);
      return v && in_range(key, *v) ? value : nullptr;
    }
    case value_type::bytes: {
      const auto v = bytes_in(*value);
      return v && in_range(key, static_cast<double>(*v)) ? value : nullptr;
    }
    case value_type::any:
      return value;
    case value_type::object:
    case value_type::section:
      return value->kind == node_kind::mapping ? value : nullptr;
  }
  return nullptr;
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_default(const key_info& key, const node& value) {
  if (value.kind == node_kind::null) return key.nullable();
  if (key.type == value_type::object) return value.entries.empty();
  if (value.kind == node_kind::sequence && key.type != value_type::number_list)
    return shown(value, 1000) == key.default_text;
  if (key.type == value_type::boolean) return boolean_in(value) == (key.default_text == "true");
  if (const auto v = number_in(value)) {
    const auto standard = number_from<double>(key.default_text);
    return standard && *standard == *v;
  }
  return value.is_scalar() && (value.text == key.default_text || quoted(value.text) == key.default_text);
}

}  // namespace troupe::config
