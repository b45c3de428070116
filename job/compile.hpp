// Applies the passes (functions that change the step plan) that a configuration or a host program requests for the
// training step. Converts the configured memory budget and schedule of passes to limits, within which
// plan/choose/compile.hpp chooses the options of the step, and refuses a budget that no options meet.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "plan/choose/compile.hpp"
#include "plan/passes/pass.hpp"

namespace troupe::job {

/// The passes that a configuration or a host program requests for the training step.
struct pass_wish {
  /// Names of Troupe's passes. If `is_automatic` is true, all passes are requested, and this list is ignored.
  std::vector<std::string> passes;
  /// Passes over the plan that the host program has written itself.
  std::vector<std::shared_ptr<const plan::pass>> own;
  bool is_automatic = false;
  std::string where;  ///< file and line of the request, which precedes the text of errors; empty: unknown
};

/// When passes over the step plan are chosen: before a run, or between two steps of a run. In the second case states
/// are not moved any more, so passes that choose their places are excluded.
enum class choice_time : uint8_t { before_a_run, between_steps };

/// Returns the passes that one entry of the configuration's schedule requests.
pass_wish wish_of(const config::job_config& config, const config::compile_entry& entry);

/// Returns the names of the configuration's passes over a host program's units; returns `automatic` if the
/// configuration does not name passes.
std::vector<std::string> unit_passes_of(const config::job_config& config, const std::vector<std::string>& automatic);
/// Returns the message that requested passes over a host program's units have no effect, one line for each such pass.
/// Call only for jobs whose model is of a published family, which has no such units.
std::string idle_unit_passes(const config::job_config& config);

/// Returns the options of a training step with these passes, from the options without them, by the times that `costs`
/// predicts. Errors: an unknown or contradictory pass; a budget (`compile.memory_budget`, `cluster.host_memory_budget`,
/// `cuda.memory_limit`) that no options meet, with the least one that works; errors of `go_on`.
core::result<plan::compiled_step> compile_step(const config::job_config& config,
                                               std::shared_ptr<const core::model_table> table,
                                               const plan::plan_options& base, const pass_wish& wish,
                                               const plan::cost_model& costs, choice_time when,
                                               const std::function<core::result<void>()>& go_on = {});

/// Returns the least `compile.memory_budget` that a step with the passes of the configuration's first entry, which must
/// exist, does not exceed. Returns every error of `compile_step` except that of an exceeded budget.
core::result<uint64_t> least_memory_budget(const config::job_config& config,
                                           std::shared_ptr<const core::model_table> table,
                                           const plan::plan_options& base, const plan::cost_model& costs,
                                           const std::function<core::result<void>()>& go_on = {});

/// Copies to `options`, the options of another training plan, those options of `chosen` that passes may change.
void take_passes(const plan::plan_options& chosen, plan::plan_options& options);

/// Returns text with one line for the step with and without passes, and one line for each pass that changed something.
std::string passes_as_text(const plan::compiled_step& compiled);

}  // namespace troupe::job
