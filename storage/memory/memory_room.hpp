// How much memory there is for this process, and how much of it is free: the machine's, and what its control groups
// leave. Whoever judges what fits asks here. Facts only, read from /proc and /sys below a root folder, so that tests
// can show another machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::storage {

struct memory_room {
  uint64_t bytes = 0;
  std::string where;  ///< whose limit is the nearest: "the machine", or "the control group" and the group's folder
  uint64_t machine_bytes = 0;  ///< the same without groups; 0: unknown
};

/// All of the machine's memory, or the smallest limit of a control group (version 1 or 2). Nothing where neither can be
/// read.
std::optional<memory_room> all_memory(const std::filesystem::path& root = "/");

/// The machine's available memory and free swap, or what the nearest limit of a control group leaves: the limit less
/// what is used, file pages that the kernel would give back aside. Nothing where it cannot be read.
std::optional<memory_room> free_memory(const std::filesystem::path& root = "/");

}  // namespace troupe::storage
