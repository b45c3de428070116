// Finds the symbolic link in a path whose target does not exist. The system reports such a path as "no such file"
// although the name exists.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace troupe::core {

/// Returns a sentence about the first component of `path` that is a symbolic link to a missing target, for example on a
/// disk that is not mounted; nullopt if no component is such a link.
inline std::optional<std::string> dangling_link_in(const std::filesystem::path& path) {
  std::filesystem::path at;
  std::error_code ec;
  for (const auto& part : path) {
    at /= part;
    if (!std::filesystem::is_symlink(std::filesystem::symlink_status(at, ec)) || std::filesystem::exists(at, ec))
      continue;
    const auto target = std::filesystem::read_symlink(at, ec);
    return std::string(1, '\'')
        .append(at.string())
        .append("' is a link to '")
        .append(target.string())
        .append("', which does not exist: mount or make that, or remove the link");
  }
  return std::nullopt;
}

}  // namespace troupe::core
