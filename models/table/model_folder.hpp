// Finds the folder of a model's config.json for a path that may name the folder or a file of its weights.
#pragma once

#include <filesystem>

namespace troupe::models {

/// Returns `path`, or, if it names a file such as an index of weights, the folder of that file, which has config.json.
inline std::filesystem::path folder_of(const std::filesystem::path& path) {
  std::error_code ec;
  return std::filesystem::is_regular_file(path, ec) ? path.parent_path() : path;
}

}  // namespace troupe::models
