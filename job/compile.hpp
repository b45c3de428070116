// Passes over the step plan, as a configuration or a host asks for them: what a step that trains becomes with them.
// Owns how a budget and a schedule become a choice, and refuses one that nothing fits; plan/choose/compile.hpp chooses.
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

/// The passes of a step, from it on.
struct pass_wish {
  std::vector<std::string> passes;                     ///< ours; `is_automatic`: all of them, whatever stands here
  std::vector<std::shared_ptr<const plan::pass>> own;  ///< that a program brings
  bool is_automatic = false;
  std::string where;  ///< file and line, in front of errors; empty: none
};

/// What a run has measured that a choice may go by.
struct measured_run {
  plan::instruction_price price;  ///< empty: the cost model's
  uint64_t memory_bytes = 0;      ///< all that a rank may take; 0: unknown
  uint64_t over_bytes = 0;        ///< by which a rank had more at its peak than its plan says
};

/// Whether a choice is for the steps from the first on, or for later ones of a run whose states have their places.
enum class choice_time : uint8_t { before_a_run, between_steps };

/// What an entry of the configuration wishes for of the plan.
pass_wish wish_of(const config::job_config& config, const config::compile_entry& entry);

/// What the configuration wishes of a host's units, by name; of `automatic` ones all, if nothing else is said.
std::vector<std::string> unit_passes_of(const config::job_config& config, const std::vector<std::string>& automatic);
/// A line for each pass over units that is asked for by name of a published family, where none has anything to change.
std::string idle_unit_passes(const config::job_config& config);

/// The options of a step that trains with these passes, from those without. Times are `measured`, else those of
/// `costs`. Errors: an unknown or contradictory pass, a budget (`compile.memory_budget`, `cluster.host_memory_budget`)
/// or a machine that nothing fits, with the least that does; those of `go_on`.
core::result<plan::compiled_step> compile_step(const config::job_config& config,
                                               std::shared_ptr<const core::model_table> table,
                                               const plan::plan_options& base, const pass_wish& wish,
                                               const plan::cost_model& costs, choice_time when,
                                               const measured_run& measured = {},
                                               const std::function<core::result<void>()>& go_on = {});

/// The least `compile.memory_budget` that the passes of the configuration's first entry, which it has, can keep to.
/// Errors: those of `compile_step` but for budgets.
core::result<uint64_t> least_memory_budget(const config::job_config& config,
                                           std::shared_ptr<const core::model_table> table,
                                           const plan::plan_options& base, const plan::cost_model& costs,
                                           const std::function<core::result<void>()>& go_on = {});

/// What passes changed, into the options of another plan that trains.
void take_passes(const plan::plan_options& chosen, plan::plan_options& options);

/// A line for the step with and without, and one for each pass that changed something.
std::string passes_as_text(const plan::compiled_step& compiled);

}  // namespace troupe::job
