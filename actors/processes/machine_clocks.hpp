// The clocks of a term's machines against that of the process that leads, from what each process knows of the
// supervisor's. Owns the choice of the surest; how a process knows is cluster/clock_offset.hpp's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "telemetry/spans.hpp"

namespace troupe::actors {

struct told_clock {  ///< of a process
  uint32_t machine = 0;
  telemetry::clock_shift to_supervisor;
};

/// By machine, but for the leading process's own: what brings its times onto that process's clock. Processes of a
/// machine have one clock, the supervisor has machine 0's. Machines of which nothing is known are left out.
std::map<uint32_t, telemetry::clock_shift> shifts_onto(uint32_t own_machine, std::optional<telemetry::clock_shift> own,
                                                       std::span<const told_clock> told);

}  // namespace troupe::actors
