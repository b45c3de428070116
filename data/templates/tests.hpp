// The tests of templates, `x is name(arguments)`.
#pragma once

#include <string_view>

#include "core/error.hpp"
#include "data/templates/arguments.hpp"
#include "data/templates/value.hpp"

namespace troupe::data::templates {

/// True for the name of a test that apply_test() knows.
bool is_test(std::string_view name);

/// Returns the result of a test.
core::result<bool> apply_test(std::string_view name, const value& x, call_arguments arguments, allowance& left);

}  // namespace troupe::data::templates
