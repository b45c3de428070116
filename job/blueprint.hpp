// Derives from a configuration everything that is known before anything runs: model, table, proved plans and their
// memory. For every kind of step, one plan for each class of ranks is written and proved, so that nothing is refused
// later; only the training plans are kept. `troupe plan` shows a blueprint, a session runs it. No actors, no tensors,
// no threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/job_config.hpp"
#include "job/compile.hpp"
#include "job/compression/compression.hpp"
#include "job/optimizer_groups.hpp"
#include "job/pipeline.hpp"
#include "job/step_plans.hpp"
#include "job/step_rules.hpp"
#include "job/tensor/tensor.hpp"
#include "kernels/optimizer/loss_scaler.hpp"
#include "models/table/model_spec.hpp"
#include "models/table/teacher.hpp"
#include "plan/choose/cost.hpp"
#include "plan/plan_choice.hpp"

namespace troupe::job {

/// Result of comparing updates before the vote with updates after it, for a run that chooses between these orders from
/// its latest steps (early_updates.hpp).
struct open_order {
  /// Largest share of undone steps at which early updates are not slower; 0: updates wait for the vote in the whole
  /// run.
  double worth = 0;
  std::string note;  ///< a sentence on the comparison of the orders; empty: nothing was compared
};

struct blueprint {  ///< the result of planning a configuration
  std::shared_ptr<const config::job_config> config;
  models::model_spec spec;
  std::optional<models::teaching> teaching;               ///< the teacher in `model.teacher`; nullopt: none
  std::shared_ptr<const core::model_table> table;         ///< the model as one rank computes it
  chosen_tensor tensor;                                   ///< how `table` is split out of the whole model
  uint64_t sequence = 0;                                  ///< number of tokens of a sample
  plan::plan_options options[plan::num_plan_choices];     ///< options of each kind of step; index: plan::plan_choice
  chosen_pipeline pipeline;                               ///< stages and order, the same for all `options`
  plan::plan_options plain;                               ///< options of training before passes change them
  std::optional<plan::compiled_step> compiled;            ///< effect of the passes; nullopt: no passes are used
  std::shared_ptr<const chosen_compression> compression;  ///< which modules and layers are compressed, and when
  step_plans train;                                       ///< plans of a step that trains and does not save
  std::vector<plan::pool_sizes> pools;                    ///< [rank]: largest pools that any kind of step needs
  plan::cost_model costs;                                 ///< cost model that chooses open sizes and predicts times
  open_order early;  ///< choice between updates before the vote and after it
  scaling_rules rules;
  std::shared_ptr<const optimizer_groups> optimizer;
  kernels::loss_scale_options loss_scale;
  double longest_instruction_s = 0;  ///< predicted seconds of the longest instruction
  double stall_after_s = 30;         ///< seconds without progress after which a run has stalled

  /// Writes and proves the plans of another kind of step, which the blueprint does not keep.
  [[nodiscard]] core::result<step_plans> write(plan::plan_choice which, const job::go_on& more = {}) const;
};

/// Callbacks that make_blueprint calls; if one returns an error, make_blueprint returns that error. Both may be empty.
struct blueprint_watch {
  job::go_on go_on{};  ///< called several times a second
  std::function<core::result<void>(const blueprint&)>
      sized{};  ///< called when the training plans are written, before all others
};

/// Returns the cost model with default rates for the configuration's device and parameter type.
plan::cost_model usual_costs(const config::job_config& config);

/// Reads the model, writes and proves the plans. Refuses a configuration that does not fit, and names the key. Open
/// degrees are chosen first, without running anything (degrees.hpp). `own`: the tables of a host's own model, which
/// replace the configuration's model; a sample is then one token.
core::result<blueprint> make_blueprint(std::shared_ptr<const config::job_config> config, const host_tables& own = {},
                                       const plan::cost_model* costs = nullptr, const blueprint_watch& watch = {});

}  // namespace troupe::job
