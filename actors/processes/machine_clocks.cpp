#include "actors/processes/machine_clocks.hpp"

namespace troupe::actors {

std::optional<telemetry::clock_shift> shift_to_supervisor(const cluster::process& link) {
  const auto known = link.clock();
  if (!known) return std::nullopt;
  return telemetry::clock_shift{known->offset_ns, known->error_ns};
}

std::map<uint32_t, telemetry::clock_shift> shifts_onto(uint32_t own_machine, std::optional<telemetry::clock_shift> own,
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
