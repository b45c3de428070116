// One forward of a host's model before anything is planned: checks that the units fit each other, and finds their costs
// and which units draw random numbers.
#pragma once

#include <optional>
#include <vector>

#include "core/error.hpp"
#include "core/model_table.hpp"
#include "models/host/module_model.hpp"
#include "models/host/module_runner.hpp"
#include "models/host/probe.hpp"
#include "models/host/random_turn.hpp"

namespace troupe::models {

/// Runs the units one after another, each built and converted to the run's type while it computes. Flops are those of
/// matrix products, convolutions, recurrences and fused attention, two for each multiply-add; saved bytes are those
/// that are still allocated after the unit's forward. Buffers keep their values.
class dry_run {
 public:
  dry_run(const host_batch& first, at::ScalarType type, at::Device where, const random_key& key);

  /// Runs unit `u`, the next one: fills in flops (if the host gave none) and bytes of the table, which has the unit's
  /// parameters. Errors: a unit that cannot compute with the output of the unit before (both are named, with the
  /// shape), an output through which no gradient flows.
  core::result<void> compute(const module_unit& unit, uint32_t u, core::model_table& table);
  /// Probes a cut over `degree` ranks of the unit that was computed last (probe.hpp); the last successful cut is kept.
  core::result<void> try_cut(const module_unit& unit, injection& cut, uint32_t degree);
  /// Allows the last unit's output to stay split: called before `try_cut` of the last unit if the model's loss needs no
  /// whole rows of scores. If that unit's only cut is the vocabulary's, each rank keeps its own columns.
  void joins_loss() { joins_loss_ = true; }
  /// Finishes the run; called after the last unit. Errors: a loss that is not one number with a gradient; a model
  /// without trained parameters.
  core::result<void> end(const module_model& model);

  /// Returns the table that a rank computes with, from the whole one: shapes, costs and exchanges of units that are
  /// cut.
  [[nodiscard]] core::model_table local_table(const core::model_table& whole, const core::tp_plan& cut) const;

  /// Sets those of `facts` that the run has found and the table does not contain.
  void tell(module_facts& facts) const;

 private:
  host_batch batch_;
  at::ScalarType type_;
  at::Device where_;
  random_key key_;
  named_values x_, y_;  // input and output of the unit that was computed last
  std::string before_;  // name of the unit that was computed last
  bool trains_ = false;
  std::vector<bool> draws_;
  std::vector<std::vector<value_info>> inputs_;
  std::vector<std::optional<summand_costs>> cut_;  // [unit]: costs of a summand, if the unit is cut
  // bytes of the last unit's output, and bytes that are still allocated after the loss was computed
  uint64_t output_bytes_ = 0, loss_bytes_ = 0;
  uint64_t statistics_bytes_ = 0;  // bytes of the last unit's row statistics, if it is cut by columns
  bool joins_loss_ = false;
  core::tp_widths columns_;  // columns of the last unit's output on each coordinate, if each has its own
};

/// Returns `t`, or a copy if it has gaps or overlaps itself. Units pass on tensors without gaps only, in both
/// directions, so that a tensor is the same, strides included, after it has crossed between stages or was stored in a
/// window.
at::Tensor without_gaps(const at::Tensor& t);
named_values without_gaps(const named_values& x);

/// Returns the input of the first unit: the batch with floating tensors converted to `type`.
named_values entering(const host_batch& batch, at::ScalarType type, at::Device where);

/// Returns the model's loss for the last unit's output, whose floating tensors are widened to a type for sums.
at::Tensor loss_of(const module_model& model, const named_values& output, const host_batch& batch);

/// Returns the exception's message in one line.
std::string line_of(const std::exception& e);

}  // namespace troupe::models
