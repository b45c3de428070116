// Which processors each process of a job runs on: neighbours in the machine's topology, so that a process's threads
// share caches and memory. Owns the division; hwloc knows the machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::apps {

/// Processors that a process needs for a share of its own: its ranks compute on one while bytes move on another.
inline constexpr uint32_t share_processors_min = 2;

/// [process]: processors by the system's numbers, of those that this process may use. Empty where there are fewer than
/// `share_processors_min` for each: then the system moves threads better. `synthetic`: a machine as hwloc's synthetic
/// topologies describe it, instead of this one.
std::vector<std::vector<uint32_t>> processor_shares(uint32_t processes, const std::string& synthetic = {});

/// From now on this process and the threads that it starts run on the share of `place` among so many processes; spares
/// beyond them have one of these. Nothing where there are no shares, or the system refuses.
void take_processor_share(uint32_t place, uint32_t processes);

}  // namespace troupe::apps
