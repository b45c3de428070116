// Methods of texts, lists and mappings that templates may call, and the names of those that they may not.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/error.hpp"
#include "data/templates/arguments.hpp"
#include "data/templates/value.hpp"

namespace troupe::data::templates {

/// How an attribute of a value is a method of Python's type.
enum class method_kind : uint8_t {
  none,     ///< the type has no method of this name
  usable,   ///< call_method() knows the method
  unsafe,   ///< the method changes the value, which Jinja's sandbox forbids
  refused,  ///< the type has the method or attribute, and it is not supported
};

/// Returns how `name` is a method of the value's type.
method_kind method_of(const value& x, std::string_view name);

/// True for a name of a method of Python's texts or mappings that is never supported.
bool is_refused_method(std::string_view name);

/// Returns a text with up to `most` places of `old` (all if negative) replaced.
core::result<value> replaced_text(std::string_view self, std::string_view old, std::string_view with, int64_t most,
                                  allowance& left);

/// Calls a method.
core::result<value> call_method(const bound_method& method, call_arguments arguments, allowance& left);

}  // namespace troupe::data::templates
