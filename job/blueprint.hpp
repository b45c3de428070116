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
#include "job/pipeline.hpp"
#include "job/step/optimizer_groups.hpp"
#include "job/step/step_plans.hpp"
#include "job/step/step_rules.hpp"
#include "job/tensor/tensor.hpp"
#include "kernels/optimizer/loss_scaler.hpp"
#include "models/table/model_spec.hpp"
#include "models/table/teacher.hpp"
#include "plan/choose/cost.hpp"
#include "plan/plan_choice.hpp"

namespace troupe::job {

/// Result of comparing two orders of a step, for a run that chooses between them by its latest steps
/// (early_updates.hpp): optimizer updates before the vote, the collective that decides about clipping and skipping, or
/// after it.
struct open_order {
  /// Largest share of steps with undone updates at which updates before the vote are not slower; 0: updates follow the
  /// vote during the whole run.
  double worth = 0;
  std::string note;  ///< sentence for the user that states the result of the comparison; empty: nothing was compared
};

struct blueprint {  ///< result of planning a configuration: everything that a run has to know before it starts
  std::shared_ptr<const config::job_config> config;
  models::model_spec spec;
  std::optional<models::teaching> teaching;  ///< the teacher in `model.teacher`; nullopt: none
  /// Table of the model's units and parameters as one tensor-parallel rank computes them
  std::shared_ptr<const core::model_table> table;
  chosen_tensor tensor;   ///< how `table` is split over tensor ranks, and the unsplit model
  uint64_t sequence = 0;  ///< number of tokens of a sample
  plan::plan_options options[plan::num_plan_choices];  ///< [plan::plan_choice]: plan options of this kind of step
  chosen_pipeline pipeline;  ///< pipeline stages and the order of each rank's work, the same for all `options`
  plan::plan_options plain;  ///< options of the training step before the passes of `compile` change them
  /// Result of the passes of `compile` for the first step; nullopt: no pass is used.
  std::optional<plan::compiled_step> compiled;
  std::shared_ptr<const chosen_compression> compression;  ///< which modules and layers are compressed, and when
  step_plans train;                                       ///< plans of a step that trains and does not save
  /// [rank]: sizes of the rank's memory pools, the largest that any kind of step needs.
  std::vector<plan::pool_sizes> pools;
  /// Cost model by which sizes are chosen that the configuration leaves open, and times are predicted.
  plan::cost_model costs;
  /// Comparison of updates before the vote with updates after it, for a run that chooses between them.
  open_order early;
  scaling_rules rules;
  std::shared_ptr<const optimizer_groups> optimizer;
  kernels::loss_scale_options loss_scale;
  double longest_instruction_s = 0;  ///< predicted seconds of the longest instruction of any training plan
  double stall_after_s = 30;         ///< seconds without progress after which a run has stalled

  /// Writes and proves the plans of the kind of step `which`; the blueprint itself stores only the plans of `train`.
  [[nodiscard]] core::result<step_plans> write(plan::plan_choice which, const job::go_on& more = {}) const;
};

/// Callbacks that make_blueprint calls; if one returns an error, make_blueprint returns that error. Both may be empty.
struct blueprint_watch {
  job::go_on go_on{};  ///< called several times a second while plans are written; an error ends the work
  std::function<core::result<void>(const blueprint&)>
      /// Called once, when the plans of training steps are written and those of all other kinds of steps are not yet.
      sized{};
};

/// Returns the cost model with default rates for the configuration's device and parameter type.
plan::cost_model usual_costs(const config::job_config& config);

/// Checks what the configuration and the folders of its model and its teacher decide before anything is planned: the
/// model on its device, its split over ranks, the teacher, compressed modules, groups of parameters. Errors: those that
/// make_blueprint has for the same reasons, each with its key. Requires that no degree is open.
core::result<void> check_described(std::shared_ptr<const config::job_config> config);

/// Reads the model, writes and proves the plans. Refuses a configuration that does not fit, and names the key. Open
/// degrees are chosen first, without running anything (degrees.hpp). `own`: the tables of a host's own model, which
/// replace the configuration's model; a sample is then one token.
core::result<blueprint> make_blueprint(std::shared_ptr<const config::job_config> config, const host_tables& own = {},
                                       const plan::cost_model* costs = nullptr, const blueprint_watch& watch = {});

}  // namespace troupe::job
