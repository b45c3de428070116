// How much memory this process may still take: the machine's, and that of its control groups. Facts only, read from
// /proc and /sys below a root folder, so that tests can show another machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::storage {

struct memory_room {
  uint64_t bytes = 0;
  std::string where;  ///< whose limit is the nearest: "the machine", or the group's folder
};

/// The machine's available memory and free swap, or what the nearest limit of a control group (version 1 or 2) leaves:
/// the limit less what is used, file pages that the kernel would give back aside. Nothing where it cannot be read.
std::optional<memory_room> read_memory_room(const std::filesystem::path& root = "/");

}  // namespace troupe::storage
