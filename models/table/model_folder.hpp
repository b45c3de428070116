// The folder of a model's description, for a path that may name a file of its weights.
#pragma once

#include <filesystem>

namespace troupe::models {

/// Returns `path`, or the folder of the file that it names, such as an index of weights: config.json is in that folder.
inline std::filesystem::path folder_of(const std::filesystem::path& path) {
  std::error_code ec;
  return std::filesystem::is_regular_file(path, ec) ? path.parent_path() : path;
}

}  // namespace troupe::models
