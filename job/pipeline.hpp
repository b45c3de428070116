// Chooses the pipeline of a job: which units form which stage, and the order of each rank's work. Refuses keys that
// cannot be combined; plan/schedule has the algorithms that divide units into stages and make schedules. Pure except
// for reading the file of a schedule, and files that earlier runs left in the run's folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "plan/options.hpp"
#include "plan/schedule/timing.hpp"

namespace troupe::job {

/// Returns the number of micro-batches that an evaluation sends through `stages` pipeline stages together; with this
/// number at most a third of the time is idle.
uint32_t evaluated_together(uint32_t stages);

/// The chosen pipeline, the same for all kinds of steps of a run. The model is not divided into stages if there is one
/// rank with one stage.
struct chosen_pipeline {
  plan::pipeline_options training;
  /// Pipelines of steps that do not train: the same stages on the same ranks. `evaluation` has several micro-batches in
  /// flight, `forward`, which every other kind of step uses, has one.
  plan::pipeline_options evaluation, forward;
  std::string schedule;  ///< name of the schedule, its file, or the name of the schedule from which a search started
  /// Name of the rule that divides the model into stages, as in the configuration (`pipeline.partition`).
  std::string partition;
  plan::pipeline_costs costs;     ///< computation times and bytes of the stages, measured or modelled
  std::filesystem::path profile;  ///< file in the run's folder with the measured costs; empty: the costs are modelled
  /// [stage]: predicted seconds of one micro-batch, including its share of the time of the update.
  std::vector<double> step_s;
  uint32_t bound = 0;  ///< index of the slowest stage, which determines the time of a step
  /// Lower bound in seconds of every schedule of these stages, found by a search; nullopt: no search.
  std::optional<double> least_s;
  bool is_kept = false;  ///< true: the search's result was read from the run's folder
  /// Request and result of the search as text (plan::write_search), for the run's folder; empty if nothing was
  /// searched.
  std::string search;

  [[nodiscard]] bool is_cut() const { return !training.first_unit.empty(); }
  /// Returns the pipeline for a kind of step.
  [[nodiscard]] const plan::pipeline_options& of(plan::mode mode) const {
    return mode == plan::mode::train ? training : mode == plan::mode::evaluate ? evaluation : forward;
  }
};

/// Chooses the pipeline. `trains` are the options of the training step without its pipeline; they determine dtypes,
/// ZeRO stage and tiers. Times come from the profile in the run's folder, if it was measured with this model,
/// micro-batch and type, else from `usual_costs`, so that equal files and folders lead to equal choices. Errors begin
/// with the key.
core::result<chosen_pipeline> choose_pipeline(const config::job_config& config, const core::model_table& table,
                                              const plan::plan_options& trains);

/// A configuration key, and the error about its value.
struct pipeline_problem {
  std::string key;
  core::error what;
};

/// Returns the reason for which choose_pipeline would refuse the configuration, as far as it is known without a search
/// for a schedule; nullopt: none.
std::optional<pipeline_problem> find_pipeline_problem(const config::job_config& config, const core::model_table& table,
                                                      const plan::plan_options& trains);

}  // namespace troupe::job
