// Finds the other programs: next to the running one, or in the Python package that it was installed with. Owns the
// search, and the check of the torch next to that package; executes nothing.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::apps {

/// Returns the folder of the running program, with links followed.
std::filesystem::path own_folder();

/// Returns the program `name` for a program in `here`: next to it; else in the Python package `troupe` of this version,
/// below the `lib` of the environment whose `bin` is `here`, or next to `here`. Refused (bad_input) if there is none;
/// the error names what installs it.
core::result<std::filesystem::path> other_program(const std::filesystem::path& here, std::string_view name);

/// Returns the program `troupe-train` for a program in `here`. One in a Python package uses the torch next to that
/// package: refused (mismatch) if that is missing, or not the version that this troupe was built with. `who` is the
/// command that needs it, for the message.
core::result<std::filesystem::path> trainer_program(const std::filesystem::path& here, const std::string& who);

/// Returns the version in torch's `version.py` in `folder`, without a `+` and the text after it; empty if the file has
/// none.
std::string torch_version_in(const std::filesystem::path& folder);

}  // namespace troupe::apps
