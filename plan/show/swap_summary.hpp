// Traffic of a step between memory and files, for people: bytes by kind of piece, and how much of the disk's time hides
// behind work. Figures of the plan and of its predicted timeline; telemetry measures the real ones.
#pragma once

#include <string>

#include "plan/choose/cost.hpp"

namespace troupe::plan {

struct disk_times {      ///< of one rank's step, in seconds
  double busy_s = 0;     ///< some transfer moving
  double hidden_s = 0;   ///< of that, while its segments, updates or norms were at work
  double exposed_s = 0;  ///< the rest
};
/// Writes of a checkpoint are not counted: no step waits for them.
disk_times disk_times_of(const timeline& t, uint32_t plan);

/// A table of all ranks, device, cpu and nvme, when something is offloaded; then of the rank of `plan`, bytes read and
/// written by kind of piece and in all, the disk's time, how much of it is hidden. Empty where everything is on the
/// device.
std::string tiers_as_text(const timeline& t, uint32_t plan);

}  // namespace troupe::plan
