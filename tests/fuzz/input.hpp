// Provides what all fuzz programs share: a folder for the process, a function that writes an input into a file there,
// and one that reports a violated property.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

namespace troupe::tests {

using bytes = std::span<const std::byte>;

/// Ends the process if `holds` is false; libFuzzer then keeps the input that caused it.
inline void wanted(bool holds) {
  if (!holds) std::abort();
}

/// Returns the folder of this process.
inline const std::filesystem::path& fuzz_folder() {
  static const std::filesystem::path at = [] {
    auto path = std::filesystem::temp_directory_path() / fmt::format("troupe-fuzz-{}", ::getpid());
    std::filesystem::create_directories(path);
    return path;
  }();
  return at;
}

inline std::filesystem::path written(const std::string& name, bytes content) {
  const auto path = fuzz_folder() / name;
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  return path;
}

}  // namespace troupe::tests
