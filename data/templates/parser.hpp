// Makes the syntax tree of a template. The parser accepts the part of Jinja's grammar that chat templates use, and
// refuses the rest of it by name.
#pragma once

#include <string_view>

#include "core/error.hpp"
#include "data/templates/syntax.hpp"

namespace troupe::data::templates {

/// Returns the tree of a template, with the places of its variables. Fails, with line and column, for anything that is
/// no Jinja, or that is Jinja and not supported: statements, filters, tests, functions.
core::result<syntax_tree> parse_template(std::string_view name, std::string_view source);

}  // namespace troupe::data::templates
