// Checks `troupe train --degrees` before anything listens or starts: whether the batch can be divided for each degree,
// and whether processes and machines suffice. Leaves the proof of plans to the training process (degree_schedule.hpp).
#pragma once

#include <string>
#include <vector>

#include "apps/base/configuration.hpp"
#include "config/sections/job_config.hpp"
#include "job/degree_changes.hpp"

namespace troupe::apps {

/// Returns the degree changes in order. The micro-batches of a later degree have at most as many rows as those of the
/// first. Errors (bad_input): those of read_degree_changes and batch_at_degree; in a job of several processes, more
/// data ranks than at the beginning; on several hosts, a first degree that differs from the number of the hosts' ranks.
core::result<std::vector<job::degree_change>> asked_degrees(const std::string& text, const config::job_config& config);

/// Prints a warning that names the changes that a run of `steps` steps never reaches, if there are any.
void warn_of_unreached(const std::vector<job::degree_change>& changes, uint64_t steps);

/// Returns `a` changed to `data` data ranks, which must divide the batch; the size of the batch does not change.
common_arguments at_data_ranks(common_arguments a, const config::job_config& config, uint32_t data);

}  // namespace troupe::apps
