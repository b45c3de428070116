// Formats the changes of a plan by the writers and by each pass, one line each.
#pragma once

#include <span>
#include <string>

#include "plan/passes/pass.hpp"

namespace troupe::plan {

/// Returns the changes of each pass as a table under a line of headings: pass, instructions added, moved and removed,
/// why. A pass without a reason has a '-'.
std::string accounts_as_table(std::span<const account> accounts);
/// Returns the changes of each pass as a JSON array of objects.
std::string accounts_as_json(std::span<const account> accounts);

}  // namespace troupe::plan
