// Where a process of a job has its swap files, for it and for who starts it and clears up behind it.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::actors {

/// Within the job's swap folder.
inline std::string swap_folder_name(uint32_t place) { return "process" + std::to_string(place); }

}  // namespace troupe::actors
