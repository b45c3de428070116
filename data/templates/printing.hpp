// Values as text: what Python's str() and repr() make of them, and JSON as transformers' filter `tojson` writes it.
#pragma once

#include <optional>
#include <string>

#include "core/error.hpp"
#include "data/templates/value.hpp"

namespace troupe::data::templates {

/// Returns the value as `{{ }}` prints it. Fails for values whose text names an address, such as functions.
core::result<std::string> printed(const value& x, allowance& left);
/// Returns the value as Python's repr() writes it, which quotes texts.
core::result<std::string> quoted(const value& x, allowance& left);

/// How JSON is written.
struct json_style {
  bool is_ascii = false;                ///< other characters are written as escapes
  std::optional<std::string> indent{};  ///< per level; nullopt: all on one line
  std::string between_items = ", ", after_key = ": ";
  bool sorts_keys = false;
};

/// Returns the value as JSON. Fails for values that Python's json.dumps() refuses.
core::result<std::string> json_of(const value& x, const json_style& style, allowance& left);

}  // namespace troupe::data::templates
