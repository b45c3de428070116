// Expands `~` and environment variables in a path, for keys and for options of the command line: a shell expands them
// in some places and not in others. Owns the rules of expansion.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace troupe::config {

/// Returns the expanded path. `~` and `~/...` start in the home folder; `$NAME` and `${NAME}` are environment
/// variables, anywhere. A component that exists under its literal name, such as a folder `a$b` in `folder`, is not
/// expanded. Refused, with the expected form: the home of another user (`~name`; `./~name` is a file), and a variable
/// that is not set. An expanded path is returned unchanged.
tl::expected<std::string, std::string> expanded_path(std::string_view text, const std::filesystem::path& folder);

}  // namespace troupe::config
