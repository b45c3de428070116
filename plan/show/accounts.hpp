// Shows the history of a plan to people: one line for the writers and for each pass.
#pragma once

#include <span>
#include <string>

#include "plan/passes/pass.hpp"

namespace troupe::plan {

/// Returns the accounts as a table under a line of headings: pass, instructions added, moved and removed, why. A pass
/// without a reason has a '-'.
std::string accounts_as_table(std::span<const account> accounts);
/// Returns the accounts as a JSON array of objects.
std::string accounts_as_json(std::span<const account> accounts);

}  // namespace troupe::plan
