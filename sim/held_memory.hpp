// Owns which memory a rank holds at which time of a simulated step: slots of pools, activations, and the rest.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/rank_plan.hpp"
#include "sim/history.hpp"
#include "telemetry/spans.hpp"

namespace troupe::sim {

/// Returns the names of all owners of memory, in the order of the memory table.
std::vector<std::string> memory_owners();

/// Appends what the rank of plan `p` holds in the step `step`. `times`: [instruction id]: start and end of the
/// instruction; the start is history::never if it did not start, the end if it did not end.
void append_memory(std::vector<holding>& out, const plan::rank_plan& p, std::span<const telemetry::interval> times,
                   const step_record& step);

}  // namespace troupe::sim
