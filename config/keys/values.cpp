#include "config/keys/values.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe::config {
namespace {

bool in_range(const key_info& key, double v) {
  if (!std::isfinite(v)) return false;
  if (key.range.least && (key.range.above_least ? v <= *key.range.least : v < *key.range.least)) return false;
  return !(key.range.most && (key.range.below_most ? v >= *key.range.most : v > *key.range.most));
}

/// True if the type of the key's field can hold the integer; the key's range is checked elsewhere.
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
    if (key.choices.any_case ? core::lowered(choice) == core::lowered(text) : choice == text)
      return make_scalar(node_kind::quoted, std::string(choice), value->at);
  return nullptr;
}

}  // namespace

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

bool is_default(const key_info& key, const node& value) {
  if (value.kind == node_kind::null) return key.nullable();
  if (key.type == value_type::object) return value.entries.empty();
  if (value.kind == node_kind::sequence && key.type != value_type::number_list)
    return shown(value, 1000) == key.default_text;
  if (key.type == value_type::boolean) return boolean_in(value) == (key.default_text == "true");
  if (const auto v = number_in(value)) {
    const auto standard = number_in(*make_scalar(node_kind::plain, key.default_text, value.at));
    return standard && *standard == *v;
  }
  return value.is_scalar() && (value.text == key.default_text || quoted(value.text) == key.default_text);
}

}  // namespace troupe::config
