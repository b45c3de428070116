// Formats the traffic of a step between memory and files: bytes by kind of data (plan::swapped), and how much of the
// disk's time overlaps with computation. The figures come from the plan and its predicted timeline; telemetry/
// measures the real ones.
#pragma once

#include <string>

#include "plan/choose/cost.hpp"

namespace troupe::plan {

/// Disk times of one rank's step, in seconds.
struct disk_times {
  double busy_s = 0;     ///< seconds in which some swap moves bytes
  double hidden_s = 0;   ///< seconds of busy_s in which segments, updates or norms run
  double exposed_s = 0;  ///< seconds of busy_s that are not in hidden_s
};
/// Computes the disk times of a plan. Writes of a checkpoint are not counted, since no step waits for them.
disk_times disk_times_of(const timeline& t, uint32_t plan);

/// Returns a table with the bytes of each rank on device, cpu and nvme; empty if everything is on the device. For the
/// rank of `plan`, it adds the bytes read and written by kind of data and in all, the disk's time, and how much of that
/// time overlaps with computation.
std::string tiers_as_text(const timeline& t, uint32_t plan);

}  // namespace troupe::plan
