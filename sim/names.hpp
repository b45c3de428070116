// Owns how a test names instructions: the names are those that `troupe plan` prints, or their beginnings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::sim {

/// True if `wanted` names the instruction `name`, as rank_plan::describe() prints it. Both have parts that commas
/// separate. The words of the first part of `wanted` have to begin the first part of the name; the word before a number
/// may be left out, directly behind the kind: "update 0" names "update sub-group 0". Each further part ("micro 1",
/// "backward") has to be a part of the name.
bool is_named(std::string_view name, std::string_view wanted);

/// Returns the one of `names`, of their first parts and of their kinds that is most like `wanted`; empty for no names.
std::string nearest_name(const std::vector<std::string>& names, std::string_view wanted);

}  // namespace troupe::sim
