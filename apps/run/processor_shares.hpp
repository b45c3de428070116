// Chooses the processors of each process of a job: neighbours in the machine's topology, so that a process's threads
// share caches and memory. Owns the division. Leaves the topology to hwloc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::apps {

/// Processors that a process needs for its own share: its ranks compute on one while bytes move on another.
inline constexpr uint32_t share_processors_min = 2;

/// Returns each process's processors [process], numbered as in the system, out of those that this process may use.
/// Empty if there are fewer than `share_processors_min` for each; then the system places threads better. `synthetic`
/// describes a machine in hwloc's synthetic form, to be used instead of this one.
std::vector<std::vector<uint32_t>> processor_shares(uint32_t processes, const std::string& synthetic = {});

/// Moves this process and the threads that it starts from now on to the share of `place` among `processes` processes; a
/// spare uses the share of one of them. Does nothing if there are no shares, or if the system refuses.
void take_processor_share(uint32_t place, uint32_t processes);

}  // namespace troupe::apps
