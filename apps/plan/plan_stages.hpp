// What `troupe plan` shows of a pipeline: its stages, what bounds them, its schedule.
#pragma once

#include <string>

#include "job/blueprint.hpp"

namespace troupe::apps {

/// A row for each stage, then the schedule, the partition and the stage that bounds the step. Of a run that is cut.
std::string stages_summary(const job::blueprint& b);

/// The order of every rank of the pipeline in PyTorch's notation; of a run that is not cut, one rank's.
std::string schedule_as_csv(const job::blueprint& b, bool with_transfers);

}  // namespace troupe::apps
