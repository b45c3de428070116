// Fills in what a configuration leaves to the plan: the size of buckets that take turns in memory; where states are
// swapped also other sizes, windows, what stays in memory. Owns which keys are open; how they are chosen is
// plan/choose/fit.hpp's.
#pragma once

#include <functional>
#include <memory>

#include "config/job_config.hpp"
#include "core/error.hpp"
#include "plan/choose/fit.hpp"

namespace troupe::job {

/// What the file does not say. Kept in memory is only what a budget has room for; gathering ahead gives way to it too.
plan::open_choices open_choices_of(const config::job_config& config);

/// `trains`, the options of the step that trains (with its checkpoint, if there are any), with open sizes chosen. The
/// same on all ranks, and again for the same file. Refuses a budget that cannot hold the step however small its pieces
/// are, with the largest unit and the smallest budget that works; `go_on`, asked between candidates, ends it. Where
/// nothing is swapped two sizes are open: of buckets that are reused while backward goes on, and of sub-groups updated
/// beside it.
core::result<plan::plan_options> with_open_sizes(const config::job_config& config,
                                                 std::shared_ptr<const core::model_table> table,
                                                 plan::plan_options trains, const plan::cost_model& costs,
                                                 const std::function<core::result<void>()>& go_on = {});

/// Copies what with_open_sizes chooses into the options of another plan of the run: all have one layout.
void take_sizes(const plan::plan_options& chosen, plan::plan_options& options);

}  // namespace troupe::job
