// Finds Troupe's other programs: next to the running one, or in the Python package that it was installed with. Owns the
// search, and the check of the version of torch next to that package; executes nothing.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::apps {

/// Returns the folder of the running program, with links followed.
std::filesystem::path own_folder();

/// Returns the path of the program `name` for a program in the folder `here`. Searches `here`, then the Python package
/// `troupe` of this version below the `lib` of the environment whose `bin` is `here`, or next to `here`. Refused
/// (bad_input) if there is none; the error names the package that installs it.
core::result<std::filesystem::path> other_program(const std::filesystem::path& here, std::string_view name);

/// Returns the path of `troupe-train` for a program in the folder `here`. If it is in a Python package, the torch next
/// to that package must have the version that this troupe was built with; else refused (mismatch). `who` is the command
/// that needs the program, for the message.
core::result<std::filesystem::path> trainer_program(const std::filesystem::path& here, const std::string& who);

/// Checks that the folder of Python packages `packages` has the torch that this troupe was built with; else refused
/// (mismatch). `who` is the command or function that needs torch, for the message.
core::result<void> check_torch(const std::filesystem::path& packages, const std::string& who);

/// Returns the version in torch's `version.py` in `folder`, without a `+` and the text after it; empty if the file has
/// none.
std::string torch_version_in(const std::filesystem::path& folder);

}  // namespace troupe::apps
