// Names the folders to which runs set aside the checkpoints of a folder: `checkpoints.1` beside `checkpoints`, and so
// on. Owns this form of a name; the callers make the folders and move checkpoints into them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/number.hpp"

namespace troupe::checkpoint {

/// Returns the path of folder `number` of those that are set aside from `root`.
inline std::filesystem::path place_aside(const std::filesystem::path& root, uint32_t number) {
  return fmt::format("{}.{}", root.string(), number);
}

/// Returns the folder whose place aside has the path `place`; empty if this is no name of a place aside.
inline std::filesystem::path origin_of_place_aside(const std::filesystem::path& place) {
  const std::string name = place.filename().string();
  const auto dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0 || !core::number_of<uint64_t>(std::string_view(name).substr(dot + 1)))
    return {};
  return place.parent_path() / name.substr(0, dot);
}

}  // namespace troupe::checkpoint
