// Names the folders to which runs set aside the checkpoints of a folder: `checkpoints.1` beside `checkpoints`, and so
// on. Owns this form of a name; the callers make the folders and move checkpoints into them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/number.hpp"

namespace troupe::checkpoint {

/// Returns the path of the folder with this number that holds checkpoints set aside from `root`: `root`.1 for 1.
inline std::filesystem::path place_aside(const std::filesystem::path& root, uint32_t number) {
  return fmt::format("{}.{}", root.string(), number);
}

/// Returns the folder from which place_aside() made the path `place`; empty if the name does not end in a dot and a
/// number.
inline std::filesystem::path origin_of_place_aside(const std::filesystem::path& place) {
  const std::string name = place.filename().string();
  const auto dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0 || !core::number_of<uint64_t>(std::string_view(name).substr(dot + 1)))
    return {};
  return place.parent_path() / name.substr(0, dot);
}

}  // namespace troupe::checkpoint
