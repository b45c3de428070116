// Where the other programs are: beside the one that runs, or in the Python package that it was installed with. Owns
// what is looked for, and the check of the torch that lies beside that package; executes nothing.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::apps {

/// The folder of the program that runs, links followed.
std::filesystem::path own_folder();

/// The program `name` for one that runs in `here`: beside it; else in the Python package `troupe` of this version,
/// below the `lib` of the environment whose `bin` is `here`, or beside that. Refused (bad_input): none, with what
/// brings it.
core::result<std::filesystem::path> other_program(const std::filesystem::path& here, std::string_view name);

/// The same of `troupe-train`. One in a Python package uses the torch beside that package: refused (mismatch) where
/// there is none, or not the version that this troupe was built with. `who` wants it: the command, for the message.
core::result<std::filesystem::path> trainer_program(const std::filesystem::path& here, const std::string& who);

/// The version that torch's `version.py` in `folder` says, without what follows a `+`; empty where it says none.
std::string torch_version_in(const std::filesystem::path& folder);

}  // namespace troupe::apps
