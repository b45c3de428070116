// Chooses the pipeline of a job: which units form which stage, and the order of each rank's work. Owns the choice by
// the configuration, and refuses keys that cannot be combined; plan/schedule owns the rules of cuts and schedules. Pure
// except for reading the file of a schedule, and files that earlier runs left in the run's folder.
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

/// Returns the number of micro-batches of an evaluation that pass through these stages together; at most a third of the
/// time is then idle.
uint32_t evaluated_together(uint32_t stages);

/// The chosen pipeline, the same for all kinds of steps of a run. Nothing is cut if one rank has one stage.
struct chosen_pipeline {
  plan::pipeline_options training;
  /// Pipelines of steps that do not train: the same stages on the same ranks. An evaluation has several micro-batches
  /// in flight, every other step has one.
  plan::pipeline_options evaluation, forward;
  std::string schedule;           ///< name or file of the schedule, or the schedule with which a search started
  std::string partition;          ///< name of the partition, as in the configuration
  plan::pipeline_costs costs;     ///< costs of the stages, measured or modelled
  std::filesystem::path profile;  ///< file of the measured costs; empty: they are modelled
  std::vector<double> step_s;     ///< [stage]: predicted seconds of a micro-batch, its share of the update included
  uint32_t bound = 0;             ///< index of the slowest stage, which bounds the step
  std::optional<double> least_s;  ///< seconds, after a search: no schedule of this cut is faster
  bool is_kept = false;           ///< true: the search's result was read from the run's folder
  std::string search;             ///< text of the search (plan::write_search); empty if nothing was searched

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

/// A key, and the error about its value.
struct pipeline_problem {
  std::string key;
  core::error what;
};

/// Returns the reason for which choose_pipeline refuses the configuration, as far as it is known without a search.
std::optional<pipeline_problem> find_pipeline_problem(const config::job_config& config, const core::model_table& table,
                                                      const plan::plan_options& trains);

}  // namespace troupe::job
