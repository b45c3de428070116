// Defines the name of a process's folder of swap files, which that process uses, and the launcher that removes the
// files of a process that was killed.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace troupe::actors {

/// Returns the name of a process's folder within the job's folder for swap files.
inline std::string swap_folder_name(uint32_t place) { return fmt::format("process{}", place); }

}  // namespace troupe::actors
