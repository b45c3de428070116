// Attributes and items of values, as Jinja's sandbox finds them: `x.y` prefers a method of x to an item, `x['y']` the
// item, and a missing one is undefined.
#pragma once

#include <optional>
#include <string_view>

#include "core/error.hpp"
#include "data/templates/value.hpp"

namespace troupe::data::templates {

/// Returns the value under any key; nullopt if there is none.
core::result<std::optional<value>> entry_of(const dictionary& in, const value& key, allowance& left);
/// Returns `of.name`. Fails if `of` is undefined, and for attributes of Python's types that are not supported.
core::result<value> attribute_of(const value& of, std::string_view name, allowance& left);
/// Returns `of[key]`.
core::result<value> item_of(const value& of, const value& key, allowance& left);
/// Returns `of[begin:end:step]`, each of which may be None.
core::result<value> slice_of(const value& of, const value& begin, const value& end, const value& step, allowance& left);
/// Returns the value at a path of attributes and indices, `a.b.0`, or at an index; the value itself for None. Where an
/// item is undefined, `otherwise` takes its place if it is not None.
core::result<value> at_path(value of, const value& path, const value& otherwise, allowance& left);

}  // namespace troupe::data::templates
