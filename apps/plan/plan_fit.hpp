// Owns `troupe plan --fit`: finds the cheapest memory tiers of the states with which a job stays within its memory
// limits, and prints the configuration section to paste. Text only.
#pragma once

#include "apps/plan/show_plan.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "plan/choose/size_search.hpp"

namespace troupe::apps {

/// Returns the request for a choice of tiers: the file's job without offloading, its limits, and the sizes that the
/// file leaves open. If `a.measure` is set, measures this machine with `products`, and the disk of `folder`, which
/// would contain swap files.
core::result<plan::fit_request> fit_request_of(const config::job_config& config, plan::memory_limits limits,
                                               const std::filesystem::path& folder, const plan_arguments& a,
                                               const job::product_meter& products = {});

/// Prints the tiers for the file's model, ranks and memory limits (`cluster.host_memory_budget`, `--memory`), and the
/// YAML of the cheapest tier within the limits. Returns the exit status: 0 if there is one, 1 if none, 2 for bad input.
int show_fit(const config::job_config& config, const plan_arguments& a, const job::product_meter& products);

}  // namespace troupe::apps
