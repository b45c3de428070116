// One forward of a host's model before anything is planned: whether the units fit each other, what they cost, and
// whether they draw random numbers.
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

/// Runs the units one after the other, each built and in the run's type while it computes. Flops are those of matrix
/// products, convolutions, recurrences and fused attention, two for a multiplication with its addition; saved bytes are
/// those that the unit's forward leaves allocated. Buffers keep their values.
class dry_run {
 public:
  dry_run(const host_batch& first, at::ScalarType type, at::Device where, const random_key& key);

  /// Unit `u`, the next one: fills in flops (where the host gave none) and bytes of the table, which has its
  /// parameters. Refused: a unit that cannot take the output of the one before (both are named, with the shape), an
  /// output through which no gradient flows.
  core::result<void> compute(const module_unit& unit, uint32_t u, core::model_table& table);
  /// Probes a cut over `degree` ranks of the unit that was computed last (probe.hpp); the last one that holds counts.
  core::result<void> try_cut(const module_unit& unit, injection& cut, uint32_t degree);
  /// Call before `try_cut` of the last unit where the model's loss needs no whole rows of scores: if that unit's only
  /// cut is the vocabulary's, each rank has its own columns.
  void joins_loss() { joins_loss_ = true; }
  /// After the last one. Refused: a loss that is not one number with a gradient; a model without anything to train.
  core::result<void> end(const module_model& model);

  /// Makes the table that a rank computes with out of the whole one: shapes, costs and exchanges of units that are cut.
  [[nodiscard]] core::model_table local_table(const core::model_table& whole, const core::tp_plan& cut) const;

  /// Fills in what it has found out beside the table.
  void tell(module_facts& facts) const;

 private:
  host_batch batch_;
  at::ScalarType type_;
  at::Device where_;
  random_key key_;
  named_values x_, y_;  // what the unit computed last took, and what it gave
  std::string before_;  // the unit that gave it
  bool trains_ = false;
  std::vector<bool> draws_;
  std::vector<std::vector<value_info>> inputs_;
  std::vector<std::optional<summand_costs>> cut_;  // [unit]
  uint64_t output_bytes_ = 0, loss_bytes_ = 0;     // of the last unit; that the loss leaves allocated
  uint64_t statistics_bytes_ = 0;                  // of its rows, where it is cut by columns
  bool joins_loss_ = false;
  core::tp_widths columns_;  // of the last unit's output, on each coordinate that has its own
};

/// `t`, or a copy where it has gaps or overlaps itself. What units hand on and back has neither, so that it is the same
/// tensor, strides included, when it has crossed between stages or lain in a window.
at::Tensor without_gaps(const at::Tensor& t);
named_values without_gaps(const named_values& x);

/// The batch as the first unit takes it: floating tensors in `type`.
named_values entering(const host_batch& batch, at::ScalarType type, at::Device where);

/// The loss that the model gives for the last unit's output, whose floating tensors it sees in a type for sums.
at::Tensor loss_of(const module_model& model, const named_values& output, const host_batch& batch);

/// The exception's message in one line.
std::string line_of(const std::exception& e);

}  // namespace troupe::models
