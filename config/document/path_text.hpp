// Expands `~` and environment variables in a path of a configuration or of the command line: a shell expands them in
// some positions of an argument and not in others. Owns the rules of expansion.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace troupe::config {

/// Returns the expanded path. `~` and `~/...` start in the home folder; `$NAME` and `${NAME}` are environment
/// variables, anywhere in the path. A component that exists under its literal name, such as a folder `a$b`, is not
/// expanded; relative paths start at `folder` for this test. Refused, with the expected form: the home of another user
/// (`~name`; `./~name` is a file), a variable that is not set, and a variable whose value contains another one.
tl::expected<std::string, std::string> expanded_path(std::string_view text, const std::filesystem::path& folder);

}  // namespace troupe::config
