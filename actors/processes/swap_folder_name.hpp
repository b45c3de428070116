// The folder of swap files of a process, for that process and for the one that starts it and removes its files.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::actors {

/// Returns the name of a process's folder within the job's folder for swap files.
inline std::string swap_folder_name(uint32_t place) { return "process" + std::to_string(place); }

}  // namespace troupe::actors
