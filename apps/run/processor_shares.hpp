// Chooses the processors of each process of a job: adjacent ones in the machine's topology, so that a process's threads
// share caches and a NUMA node. Owns the division. Leaves the topology to hwloc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::apps {

/// Least number of processors of a process: its ranks compute on one while another moves bytes.
inline constexpr uint32_t share_processors_min = 2;

/// Divides the processors that this process may use among `processes` processes. Returns the operating system's numbers
/// of each process's processors, by process; empty if a process would have fewer than `share_processors_min`, because
/// the system then places threads better. `synthetic` describes a machine in hwloc's synthetic form, to be used instead
/// of this one.
std::vector<std::vector<uint32_t>> processor_shares(uint32_t processes, const std::string& synthetic = {});

/// Restricts this process, number `place` of `processes`, and the threads that it starts from now on to the processors
/// that processor_shares() returns for it; a spare process uses the processors of another process. Does nothing if that
/// function returns nothing, or if the system refuses.
void take_processor_share(uint32_t place, uint32_t processes);

}  // namespace troupe::apps
