// `troupe plan --fit`: the cheapest tiers that fit a memory, and the section to paste. Text only.
#pragma once

#include "apps/plan/show_plan.hpp"
#include "config/job_config.hpp"

namespace troupe::apps {

/// Shows the ladder of tiers for the file's model, ranks and budget (`cluster.host_memory_budget`, `--memory`), and the
/// YAML of the cheapest that fits. The exit status: 0 where something fits, 1 where nothing does, 2 for bad input.
int show_fit(const config::job_config& config, const plan_arguments& a, const job::product_meter& products);

}  // namespace troupe::apps
