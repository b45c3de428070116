// The operators of templates' expressions, with the results of Python's.
#pragma once

#include <string_view>

#include "core/error.hpp"
#include "data/templates/value.hpp"

namespace troupe::data::templates {

/// Returns x `word` y for one of + - * / // % **. Fails for types that the operator does not take, and for integers
/// beyond 64 bits.
core::result<value> binary(std::string_view word, const value& x, const value& y, allowance& left);
/// Returns +x or -x.
core::result<value> with_sign(bool is_minus, const value& x);
/// Returns x `word` y for one of == != < <= > >= in and "not in".
core::result<bool> compared(std::string_view word, const value& x, const value& y, allowance& left);
/// True if `x` is an item, a key or a part of `in`.
core::result<bool> contains(const value& in, const value& x, allowance& left);
/// Returns the text with `%s` and other marks replaced by the arguments, as Python's operator % does.
core::result<value> formatted(std::string_view pattern, const values& arguments, allowance& left);

}  // namespace troupe::data::templates
