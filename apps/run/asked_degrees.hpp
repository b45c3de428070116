// What `troupe train --degrees` asks of a job, before anything listens or starts: whether its batch can be cut for each
// of the degrees, and whether its processes and hosts hold them. Plans are proved by whoever trains
// (degree_schedule.hpp).
#pragma once

#include <string>
#include <vector>

#include "apps/base/configuration.hpp"
#include "config/sections/job_config.hpp"
#include "job/degree_changes.hpp"

namespace troupe::apps {

/// In order. A later degree has micro-batches of at most the first one's rows, as it has after a loss. Errors
/// (bad_input): what read_degree_changes and batch_at_degree refuse; in a job of several processes more data ranks than
/// it begins with, on several hosts another first degree than they have ranks for.
core::result<std::vector<job::degree_change>> asked_degrees(const std::string& text, const config::job_config& config);

/// The arguments of the same file with so many data ranks, for which its batch can be cut, and a batch as large as
/// before.
common_arguments at_data_ranks(common_arguments a, const config::job_config& config, uint32_t data);

}  // namespace troupe::apps
