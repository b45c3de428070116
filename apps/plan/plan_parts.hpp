// The parts of what `troupe plan` prints about a job, as text or JSON; each part has a source file of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/base/output_form.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "job/blueprint.hpp"
#include "job/predicted_interval.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::apps {

/// Returns one line for each layer: unit, module, kind, widths, layout of its weight, its parameters, heads and parts.
/// A parameter that belongs to another layer has its full name.
std::string layers_as_table(const core::model_table& table);

/// Returns the layers as an array of objects. Missing properties are omitted, except `weight` and `bias`, which are
/// null.
std::string layers_as_json(const core::model_table& table);

/// Prints the layers of the configuration's model. Exit codes: 0 done, 2 bad input.
int show_layers(const config::job_config& config, output_form form);

/// Returns a row for each stage, then the schedule, the partition and the stage that bounds the step. Requires a
/// pipeline.
std::string stages_summary(const job::blueprint& b);

/// Returns the order of every rank of the pipeline in PyTorch's notation; without a pipeline, the order of one rank.
std::string schedule_as_csv(const job::blueprint& b, bool with_transfers);

/// Returns a row for each split parameter, with equally split blocks in one row, and the exchanges of a step. Requires
/// a tensor degree above 1.
std::string tensor_summary(const job::blueprint& b);

/// Returns one line that lists the machines; empty with fewer than two machines. Errors: those of plans.
core::result<std::string> machines_summary(const job::blueprint& b);

/// Returns a table with one row for equally compressed modules of all blocks, and the most bytes of a rank for the
/// compressed copies of weights. Empty without compression.
std::string compression_summary(const job::blueprint& b);

/// Returns a table with a row for the run's settings and a row for each other value of `gradient_order` and
/// `stage3_max_reuse_distance`: number and bytes of all-gathers and gradient reductions of the busiest rank in a step,
/// and its memory. Empty if there are no alternatives.
std::string moves_summary(const job::blueprint& b);

/// Returns DeepSpeed's memory estimates for the model, with the ranks as the GPUs of one node; the constant sizes of
/// its states; the plan's own memory peak; and the efficiency that ZeRO-Infinity's bandwidth model predicts for this
/// machine with states on its disk.
std::string estimate_summary(const job::blueprint& b, const plan::cost_model& costs);

/// Returns the efficiency that ZeRO-Infinity's bandwidth model predicts, a line for each kind of state.
std::string efficiency_summary(const job::blueprint& b, const plan::cost_model& costs);

/// Returns a line with the interval of a predicted step and the constants that matter most.
std::string interval_summary(const job::predicted_interval& interval);

/// Returns the memory of each rank by owner (or of one rank of each class of equal ranks, with the number of ranks),
/// the predicted step of the plan with index `mine`, the instructions and idle time of its lanes, and its disk traffic.
/// `saving` is the timeline of a step in which a checkpoint is saved; null: the job saves none. `interval`: nullopt if
/// the constants are not of this machine.
std::string plan_as_json(const job::blueprint& b, const plan::timeline& timeline, uint32_t mine,
                         const plan::timeline* saving, const std::string& source,
                         const std::optional<job::predicted_interval>& interval);

/// Returns a page with the lanes of the predicted step, and tables of times and of memory by owner. `of` names the job;
/// `source` says where the rates come from, as a clause.
std::string plan_as_page(const plan::timeline& t, const std::string& of, const std::string& source);

}  // namespace troupe::apps
