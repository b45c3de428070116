// The filters of templates, `x | name(arguments)`.
#pragma once

#include <string_view>

#include "core/error.hpp"
#include "data/templates/arguments.hpp"
#include "data/templates/value.hpp"

namespace troupe::data::templates {

/// True for the name of a filter that apply_filter() knows.
bool is_filter(std::string_view name);

/// Returns the result of a filter. Filters such as `map` return items that are made when they are asked for; `left` has
/// to exist until then.
core::result<value> apply_filter(std::string_view name, const value& of, call_arguments arguments, allowance& left);

}  // namespace troupe::data::templates
