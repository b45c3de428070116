// Formats a pipeline for `troupe plan`: its stages, the stage that bounds the step, its schedule.
#pragma once

#include <string>

#include "job/blueprint.hpp"

namespace troupe::apps {

/// Returns a row for each stage, then the schedule, the partition and the stage that bounds the step. Requires a
/// pipeline.
std::string stages_summary(const job::blueprint& b);

/// Returns the order of every rank of the pipeline in PyTorch's notation; without a pipeline, the order of one rank.
std::string schedule_as_csv(const job::blueprint& b, bool with_transfers);

}  // namespace troupe::apps
