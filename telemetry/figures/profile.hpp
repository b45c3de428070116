// Makes the profile of a run: the times of its model's units, for cuts and schedules of later runs.
#pragma once

#include "plan/choose/profile.hpp"
#include "telemetry/instruction_times.hpp"

namespace troupe::telemetry {

/// Returns the profile of a run whose steps are recorded; it has no units without steps. An instruction counts with its
/// shortest time over the steps, since other work on the machine only adds; a unit with the mean over its micro-batches
/// and ranks. The time of a whole backward is divided between its two parts in the ratio of their matrix products.
plan::model_profile profile_of(const instruction_times& times);

}  // namespace troupe::telemetry
