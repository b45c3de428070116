// The pipeline of a job: which units make which stage, and what every rank does in which order. Owns the choice between
// what a configuration says and refuses what does not go together, with the key; the rules of cuts and schedules are
// plan/schedule's. Pure but for reading the file of a schedule, and what earlier runs left in the run's folder.
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

/// Micro-batches of an evaluation that go through these stages together: idle is then a third at most.
uint32_t evaluated_together(uint32_t stages);

/// What was chosen, once for all kinds of steps of a run. Nothing is cut where one rank has one stage.
struct chosen_pipeline {
  plan::pipeline_options training;
  /// Of steps that do not train: the same stages on the same ranks. An evaluation has several micro-batches in flight,
  /// everything else has one.
  plan::pipeline_options evaluation, forward;
  std::string schedule;           ///< its name, its file, or what a search started from
  std::string partition;          ///< as the configuration has it
  plan::pipeline_costs costs;     ///< of the stages, measured or modelled
  std::filesystem::path profile;  ///< the file that they were measured in; empty: they are modelled
  std::vector<double> step_s;     ///< [stage] time of a micro-batch, with its share of the update
  uint32_t bound = 0;             ///< the stage that bounds the step
  std::optional<double> least_s;  ///< after a search: no schedule of this cut is faster
  bool is_kept = false;           ///< the run's folder had this search
  std::string search;             ///< plan::write_search of it; empty where nothing was searched

  [[nodiscard]] bool is_cut() const { return !training.first_unit.empty(); }
  /// For a kind of step.
  [[nodiscard]] const plan::pipeline_options& of(plan::mode mode) const {
    return mode == plan::mode::train ? training : mode == plan::mode::evaluate ? evaluation : forward;
  }
};

/// The options of the step that trains, without its pipeline, tell dtypes, ZeRO stage and tiers. Times are those of the
/// profile in the run's folder, if it has one of this model, micro-batch and type, else those of `usual_costs`: the
/// same file and folder make the same choice. Errors begin with the key.
core::result<chosen_pipeline> choose_pipeline(const config::job_config& config, const core::model_table& table,
                                              const plan::plan_options& trains);

/// A key, and what is wrong with it.
struct pipeline_problem {
  std::string key;
  core::error what;
};

/// For which choose_pipeline refuses the configuration, as far as that is known without a search.
std::optional<pipeline_problem> find_pipeline_problem(const config::job_config& config, const core::model_table& table,
                                                      const plan::plan_options& trains);

}  // namespace troupe::job
