// Makes the profile of a run: the measured times of the model's units. Later runs read it to split the model into
// pipeline stages of equal time and to choose a schedule.
#pragma once

#include "plan/choose/profile.hpp"
#include "telemetry/instruction_times.hpp"

namespace troupe::telemetry {

/// Returns the profile of the recorded steps; without recorded steps, a profile without units. Uses the shortest time
/// of each instruction over the steps, since other work on the machine only adds time, and for each unit the mean over
/// its micro-batches and ranks. If backward is not split, its time is divided between the gradient of the input and the
/// gradients of the parameters in the ratio of their flops.
plan::model_profile profile_of(const instruction_times& times);

}  // namespace troupe::telemetry
