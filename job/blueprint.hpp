// From a configuration to everything that is known before anything runs: model, table, proved plans and their memory.
// For every kind of step one plan for each class of ranks is written and proved, so that nothing is refused later;
// those of training stay. `troupe plan` shows it, a session runs it. No actors, no tensors, no threads.
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

/// The order of updates and the vote, where the run decides it by its last steps (early_updates.hpp).
struct open_order {
  double worth = 0;  ///< the share of undone steps up to which early updates pay; 0: updates wait for the whole run
  std::string note;  ///< a sentence on what was found; empty: nothing was compared
};

struct blueprint {  ///< everything that is known before anything runs
  std::shared_ptr<const config::job_config> config;
  models::model_spec spec;
  std::optional<models::teaching> teaching;               ///< by the model that `model.teacher` names
  std::shared_ptr<const core::model_table> table;         ///< what a rank computes with
  chosen_tensor tensor;                                   ///< how that is cut out of the whole model
  uint64_t sequence = 0;                                  ///< tokens of a sample
  plan::plan_options options[plan::num_plan_choices];     ///< [plan::plan_choice]
  chosen_pipeline pipeline;                               ///< stages and order, the same in all of them
  plan::plan_options plain;                               ///< of training, before passes change it
  std::optional<plan::compiled_step> compiled;            ///< what passes did to it, if there are any
  std::shared_ptr<const chosen_compression> compression;  ///< modules that units read compressed
  step_plans train;                                       ///< the plans of a step that trains and does not save
  std::vector<plan::pool_sizes> pools;                    ///< [rank]: the most that any kind of step needs
  plan::cost_model costs;                                 ///< used to choose open sizes and to predict times
  open_order early;  ///< whether the run decides that it updates before the vote
  scaling_rules rules;
  std::shared_ptr<const optimizer_groups> optimizer;
  kernels::loss_scale_options loss_scale;
  double longest_instruction_s = 0;  ///< predicted
  double stall_after_s = 30;         ///< cluster.stall_after

  /// The plans of another kind of step, written anew and proved; not kept here.
  [[nodiscard]] core::result<step_plans> write(plan::plan_choice which, const job::go_on& more = {}) const;
};

/// Callbacks while a blueprint is made; an error of one ends it. Both may be empty.
struct blueprint_watch {
  job::go_on go_on{};  ///< several times a second
  std::function<core::result<void>(const blueprint&)>
      sized{};  ///< after the plans of training are written, before all others
};

/// The cost model's defaults for the configuration's parameters on this processor.
plan::cost_model usual_costs(const config::job_config& config);

/// Reads the model, writes and proves the plans. Refuses what does not fit, with the key named. Degrees that are open
/// are chosen first, without running anything (degrees.hpp).
/// `own`: the tables of a host's own model instead of the configuration's; a sample is one token then.
core::result<blueprint> make_blueprint(std::shared_ptr<const config::job_config> config, const host_tables& own = {},
                                       const plan::cost_model* costs = nullptr, const blueprint_watch& watch = {});

}  // namespace troupe::job
