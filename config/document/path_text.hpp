// A path as people write it, with `~` and environment variables, for keys and for options of the command line: a shell
// has replaced them in some places and not in others. Owns what stands for what.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace troupe::config {

/// `~` and `~/...` begin in the home folder; `$NAME` and `${NAME}` are the environment's, anywhere. A component that
/// exists under its name, such as a folder `a$b` in `folder`, is that one. Otherwise refused, with what was wanted: the
/// home of another user (`~name`; `./~name` is a file), and a variable that is not set. A path that this has given is
/// given back as it is.
tl::expected<std::string, std::string> expanded_path(std::string_view text, const std::filesystem::path& folder);

}  // namespace troupe::config
