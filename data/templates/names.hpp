// Finds the variable that each name of a template means. Jinja decides that before it renders anything: a name that a
// frame assigns anywhere is a variable of that frame from its beginning on.
#pragma once

#include <string_view>

#include "core/error.hpp"
#include "data/templates/syntax.hpp"

namespace troupe::data::templates {

/// Fills in the places of variables and the frames of a tree. Fails for an assignment to `loop` inside of a loop.
core::result<void> place_variables(std::string_view name, syntax_tree& tree);

}  // namespace troupe::data::templates
