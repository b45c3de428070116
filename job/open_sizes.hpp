// Chooses the settings ("open sizes") that a configuration leaves to the plan: the size of gradient buckets that reuse
// each other's memory, and, if states are swapped, further sizes, numbers of windows, and how many states stay in
// memory. Owns which keys are open; plan/choose/size_search.hpp chooses their values.
#pragma once

#include <functional>
#include <memory>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "plan/choose/size_search.hpp"

namespace troupe::job {

/// Returns which settings the configuration leaves to the plan. How many states stay in memory, and how far ahead
/// parameters are gathered, is open only if the configuration sets `cluster.host_memory_budget`.
plan::open_choices open_choices_of(const config::job_config& config);

/// Returns `trains`, the options of the training step (which saves if the run writes checkpoints), with all open sizes
/// chosen; the choice is the same on all ranks and in every run of the same file. If nothing is swapped, only two sizes
/// are open: of gradient buckets that are reused during backward, and of sub-groups whose updates overlap backward.
/// Refuses a budget that cannot hold the step even with the smallest sizes, and names the largest unit and the smallest
/// budget that works; an error of `go_on`, which is called between candidates, ends the choice.
core::result<plan::plan_options> with_open_sizes(const config::job_config& config,
                                                 std::shared_ptr<const core::model_table> table,
                                                 plan::plan_options trains, const plan::cost_model& costs,
                                                 const std::function<core::result<void>()>& go_on = {});

/// Returns the least value of `cluster.host_memory_budget`, in bytes for all ranks together, that a step with these
/// options, which must swap states, does not exceed.
core::result<uint64_t> least_budget(const config::job_config& config, std::shared_ptr<const core::model_table> table,
                                    plan::plan_options trains, const plan::cost_model& costs,
                                    const std::function<core::result<void>()>& go_on = {});

/// Copies the sizes that with_open_sizes chose into the options of another plan of the run, so that all plans have the
/// same layout.
void take_sizes(const plan::plan_options& chosen, plan::plan_options& options);

}  // namespace troupe::job
