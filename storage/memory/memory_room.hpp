// Reports how much memory this process can use, and how much of it is free: the machine's memory, reduced by limits of
// its control groups. All code that checks whether something fits into memory uses these functions. They only read
// /proc and /sys below a root folder, so that tests can simulate another machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::storage {

struct memory_room {
  uint64_t bytes = 0;
  std::string where;           ///< source of `bytes`: "the machine", or "the control group" and its folder
  uint64_t machine_bytes = 0;  ///< bytes without the limits of control groups; 0: unknown
};

/// Returns the size of the machine's memory, or the smallest limit of a control group (version 1 or 2) if that is less.
/// Nullopt if neither can be read.
std::optional<memory_room> all_memory(const std::filesystem::path& root = "/");

/// Returns the sum of the machine's available memory and free swap space, or the smallest remainder of a control group
/// if that is less: its limit minus its used memory, not counting file pages, which the kernel can reclaim. Nullopt if
/// neither can be read.
std::optional<memory_room> free_memory(const std::filesystem::path& root = "/");

}  // namespace troupe::storage
