// Reports how much memory this process can use, and how much of it is free: the machine's memory, reduced by limits of
// its control groups. All checks whether something fits use these functions. Only reads facts from /proc and /sys below
// a root folder, so that tests can simulate another machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::storage {

struct memory_room {
  uint64_t bytes = 0;
  std::string where;  ///< owner of the tightest limit: "the machine", or "the control group" and the group's folder
  uint64_t machine_bytes = 0;  ///< bytes without control groups; 0: unknown
};

/// Returns all of the machine's memory, or the smallest limit of a control group (version 1 or 2). Nullopt if neither
/// can be read.
std::optional<memory_room> all_memory(const std::filesystem::path& root = "/");

/// Returns the machine's available memory and free swap, or the remainder of the tightest control group limit: the
/// limit minus the used memory, without file pages that the kernel would reclaim. Nullopt if it cannot be read.
std::optional<memory_room> free_memory(const std::filesystem::path& root = "/");

}  // namespace troupe::storage
