// Finds the link in a path that leads nowhere: what the system calls "no such file" although a name is there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace troupe::checkpoint {

/// The sentence on the first part of `path` that is a link to something that is not there, such as a disk that is not
/// mounted; nothing where there is no such part.
std::optional<std::string> dangling_link_in(const std::filesystem::path& path);

}  // namespace troupe::checkpoint
