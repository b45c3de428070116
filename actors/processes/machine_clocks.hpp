// Computes the differences between the clocks of a term's machines and the leading process's clock, from the
// differences to the supervisor's clock that the processes have measured. Owns the choice of the most accurate
// measurement; cluster/clock_offset.hpp measures.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "cluster/process.hpp"
#include "telemetry/spans.hpp"

namespace troupe::actors {

struct told_clock {  ///< difference between a machine's and the supervisor's clock, as a process measured it
  uint32_t machine = 0;
  telemetry::clock_shift to_supervisor;
};

/// Returns the shift from this process's clock to the supervisor's; none before it is known.
inline std::optional<telemetry::clock_shift> shift_to_supervisor(const cluster::process& link) {
  const auto known = link.clock();
  if (!known) return std::nullopt;
  return telemetry::clock_shift{known->offset_ns, known->error_ns};
}

/// Returns for each machine, except for that of the leading process, the shift from its times to the leading process's
/// clock. Processes of a machine share one clock; the supervisor runs on machine 0. Machines without any measurement
/// are left out.
inline std::map<uint32_t, telemetry::clock_shift> shifts_onto(uint32_t own_machine,
                                                              std::optional<telemetry::clock_shift> own,
                                                              std::span<const told_clock> told) {
  std::map<uint32_t, telemetry::clock_shift> surest;
  for (const auto& t : told) {
    const auto at = surest.try_emplace(t.machine, t.to_supervisor).first;
    if (t.to_supervisor.error_ns < at->second.error_ns) at->second = t.to_supervisor;
  }
  surest[0] = {};
  if (own_machine == 0) own = telemetry::clock_shift{};
  surest.erase(own_machine);
  if (!own) return {};
  for (auto& [machine, shift] : surest) shift = {shift.offset_ns - own->offset_ns, shift.error_ns + own->error_ns};
  return surest;
}

}  // namespace troupe::actors
