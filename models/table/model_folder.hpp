// Where the description of a model lies, whose path may name a file of its weights.
#pragma once

#include <filesystem>

namespace troupe::models {

/// `path`, or the folder of the file that it is, such as an index of weights: config.json lies there.
inline std::filesystem::path folder_of(const std::filesystem::path& path) {
  std::error_code ec;
  return std::filesystem::is_regular_file(path, ec) ? path.parent_path() : path;
}

}  // namespace troupe::models
