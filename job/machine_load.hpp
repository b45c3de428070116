// Tells how busy other programs keep the machine, from the kernel's counters of processor time. Reads text that the
// caller took from /proc/stat.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::job {

/// Returns the text of a file of the kernel, such as /proc/stat, whose size reads as 0; empty if it cannot be read.
std::string kernel_text(const std::filesystem::path& file);

/// Processor time of all cores since the machine started, in seconds.
struct processor_times {
  double busy_s = 0;  ///< seconds that a core worked for any program or for the kernel, or another guest took it
  double all_s = 0;   ///< busy seconds and idle ones
};

/// Returns the times in the text of /proc/stat, whose first line counts ticks of all cores; nullopt if there is no such
/// line. `ticks_per_s`: sysconf(_SC_CLK_TCK).
std::optional<processor_times> processor_times_in(std::string_view stat, double ticks_per_s);

/// Returns the share of all cores' time between two readings in which they worked for other programs than one that used
/// `own_s` seconds of processor time meanwhile; 0 if no time has passed.
double share_of_others(const processor_times& before, const processor_times& after, double own_s);

}  // namespace troupe::job
