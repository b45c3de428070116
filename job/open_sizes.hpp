// Fills in the settings that a configuration leaves to the plan: the size of buckets that take turns in memory; if
// states are swapped also other sizes, windows, states that stay in memory. Owns which keys are open;
// plan/choose/fit.hpp chooses them.
#pragma once

#include <functional>
#include <memory>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "plan/choose/fit.hpp"

namespace troupe::job {

/// The settings that the file does not give. States stay in memory, and parameters are gathered ahead, only as far as a
/// budget has room.
plan::open_choices open_choices_of(const config::job_config& config);

/// `trains`, the options of the step that trains (and saves, if the run takes checkpoints), with open sizes chosen. The
/// same on all ranks, and every time for the same file. Refuses a budget that cannot hold the step however small its
/// pieces are, with the largest unit and the smallest budget that works; an error of `go_on`, called between
/// candidates, ends it. If nothing is swapped, two sizes are open: of buckets that are reused during backward, and of
/// sub-groups that are updated beside it.
core::result<plan::plan_options> with_open_sizes(const config::job_config& config,
                                                 std::shared_ptr<const core::model_table> table,
                                                 plan::plan_options trains, const plan::cost_model& costs,
                                                 const std::function<core::result<void>()>& go_on = {});

/// The least budget of all ranks that a step of these options has room in, where states are swapped.
core::result<uint64_t> least_budget(const config::job_config& config, std::shared_ptr<const core::model_table> table,
                                    plan::plan_options trains, const plan::cost_model& costs,
                                    const std::function<core::result<void>()>& go_on = {});

/// Copies the sizes that with_open_sizes chose into the options of another plan of the run: all have the same layout.
void take_sizes(const plan::plan_options& chosen, plan::plan_options& options);

}  // namespace troupe::job
