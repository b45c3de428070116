// The profile of a run: what the units of its model took, for cuts and schedules of later runs.
#pragma once

#include "plan/choose/profile.hpp"
#include "telemetry/instruction_times.hpp"

namespace troupe::telemetry {

/// Of a run whose steps are recorded; without steps it has no units. Of each instruction it takes the least time over the
/// steps, since other work on the machine only adds, and of a unit the mean over its micro-batches and ranks. Where backward was computed whole, its time is
/// shared out between the two parts as their products are.
plan::model_profile profile_of(const instruction_times& times);

}  // namespace troupe::telemetry
