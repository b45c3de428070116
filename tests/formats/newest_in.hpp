// Finds the checkpoint that a file in a folder names, for tests of readers that take the checkpoint's own folder.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace troupe::tests {

/// Returns the folder that the file `pointer` in `root` names; `root` itself if there is no such file.
inline std::filesystem::path newest_in(const std::filesystem::path& root, const char* pointer = "latest") {
  std::string name;
  std::ifstream(root / pointer) >> name;
  return name.empty() ? root : root / name;
}

}  // namespace troupe::tests
