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

/// The order of updates and the vote, if the run chooses it from its latest steps (early_updates.hpp).
struct open_order {
  /// Share of undone steps up to which early updates pay; 0: updates wait for the vote in the whole run.
  double worth = 0;
  std::string note;  ///< a sentence on the comparison of the orders; empty: nothing was compared
};

struct blueprint {  ///< the result of planning a configuration
  std::shared_ptr<const config::job_config> config;
  models::model_spec spec;
  std::optional<models::teaching> teaching;               ///< by the teacher, the model in `model.teacher`
  std::shared_ptr<const core::model_table> table;         ///< the model as one rank computes it
  chosen_tensor tensor;                                   ///< how `table` is split out of the whole model
  uint64_t sequence = 0;                                  ///< tokens of a sample
  plan::plan_options options[plan::num_plan_choices];     ///< [plan::plan_choice]
  chosen_pipeline pipeline;                               ///< stages and order, the same for all `options`
  plan::plan_options plain;                               ///< options of training, before passes change them
  std::optional<plan::compiled_step> compiled;            ///< effect of the passes, if there are any
  std::shared_ptr<const chosen_compression> compression;  ///< modules whose weights units read compressed
  step_plans train;                                       ///< plans of a step that trains and does not save
  std::vector<plan::pool_sizes> pools;                    ///< [rank]: the largest pools of any kind of step
  plan::cost_model costs;                                 ///< used to choose open sizes and to predict times
  open_order early;  ///< whether the run chooses to update before the vote
  scaling_rules rules;
  std::shared_ptr<const optimizer_groups> optimizer;
  kernels::loss_scale_options loss_scale;
  double longest_instruction_s = 0;  ///< seconds, predicted
  double stall_after_s = 30;         ///< cluster.stall_after, in seconds

  /// Writes and proves the plans of another kind of step, which the blueprint does not keep.
  [[nodiscard]] core::result<step_plans> write(plan::plan_choice which, const job::go_on& more = {}) const;
};

/// Callbacks during make_blueprint; if one returns an error, make_blueprint fails with it. Both may be empty.
struct blueprint_watch {
  job::go_on go_on{};  ///< called several times a second
  std::function<core::result<void>(const blueprint&)>
      sized{};  ///< called when the training plans are written, before all others
};

/// Returns the cost model's defaults for the configuration's parameters on this processor.
plan::cost_model usual_costs(const config::job_config& config);

/// Reads the model, writes and proves the plans. Refuses a configuration that does not fit, and names the key. Open
/// degrees are chosen first, without running anything (degrees.hpp). `own`: the tables of a host's own model, which
/// replace the configuration's model; a sample is then one token.
core::result<blueprint> make_blueprint(std::shared_ptr<const config::job_config> config, const host_tables& own = {},
                                       const plan::cost_model* costs = nullptr, const blueprint_watch& watch = {});

}  // namespace troupe::job
