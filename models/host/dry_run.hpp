// One forward of the host program's model before anything is planned: checks that each unit accepts the output of
// the unit before, and measures their costs and which units draw random numbers.
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

/// Runs a model's units one after another on one batch; each unit is built and converted to the run's type only while
/// it computes. Flops are those of matrix products, convolutions, recurrences and fused attention, two for each
/// multiply-add; saved bytes are those that are still allocated after the unit's forward. Buffers get their old values
/// back.
class dry_run {
 public:
  dry_run(const host_batch& first, at::ScalarType type, at::Device where, const random_key& key);

  /// Runs unit `u`, which must be the one after the last call's: fills in its flops (unless the host gave them) and
  /// bytes in `table`, which must have the unit's parameters already. Errors: a unit that cannot compute with the
  /// output of the unit before (both are named, with the shape), an output through which no gradient flows.
  core::result<void> compute(const module_unit& unit, uint32_t u, core::model_table& table);
  /// Checks that the unit that compute() ran last computes the same if `cut` splits it over `degree` tensor-parallel
  /// ranks (probe.hpp), and measures the costs of one rank. If called again for the same unit, the last cut that passed
  /// is used.
  core::result<void> try_cut(const module_unit& unit, injection& cut, uint32_t degree);
  /// Checks that the unit that compute() ran last computes the same with the layers of Troupe's that `policy` puts in
  /// the place of its own (probe.hpp).
  core::result<void> try_own(const module_unit& unit, const layer_policy& policy) const;
  /// Allows the last unit's output to stay split by columns of the vocabulary: each rank then keeps its own columns of
  /// the scores, if the cut of the vocabulary is the unit's only cut. Called before `try_cut` of the last unit if the
  /// model's loss can be computed from split rows.
  void joins_loss() { joins_loss_ = true; }
  /// Computes the loss from the last unit's output; called after the last unit. Errors: a loss that is not one number
  /// with a gradient; a model without trained parameters.
  core::result<void> end(const module_model& model);

  /// Returns the table with which one tensor-parallel rank computes, from the table of the whole model: shapes of cut
  /// parameters, and costs and exchanges of cut units.
  [[nodiscard]] core::model_table local_table(const core::model_table& whole, const core::tp_plan& cut) const;

  /// Sets the members of `facts` that the run has found and that the table does not contain: names and shapes of
  /// values, and which units draw random numbers and are cut.
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
  // [unit]: costs of one tensor-parallel rank, if the unit is cut over ranks.
  std::vector<std::optional<summand_costs>> cut_;
  // Bytes of the last unit's output, and bytes that are still allocated after the loss was computed.
  uint64_t output_bytes_ = 0, loss_bytes_ = 0;
  // Bytes of the softmax statistics of all rows, if each rank keeps its own columns of the scores.
  uint64_t statistics_bytes_ = 0;
  bool joins_loss_ = false;
  // Columns of the last unit's output on each tensor-parallel rank; empty: ranks have whole rows.
  core::tp_widths columns_;
};

/// Returns `t`, or a contiguous copy if its elements have gaps between them or overlap. Units pass on only tensors
/// without gaps, forward and backward, so that a tensor has the same strides after it was sent to another pipeline
/// stage or stored in a swap file.
at::Tensor without_gaps(const at::Tensor& t);
named_values without_gaps(const named_values& x);

/// Returns the input of the first unit: the tensors of the batch on the device `where`, floating ones converted to
/// `type`.
named_values entering(const host_batch& batch, at::ScalarType type, at::Device where);

/// Returns the model's loss for the last unit's output, whose floating tensors are first converted to the type that
/// sums are formed in (fp32, or fp64 for fp64).
at::Tensor loss_of(const module_model& model, const named_values& output, const host_batch& batch);

/// Returns the first line of the exception's message, which for LibTorch's exceptions has no backtrace.
std::string line_of(const std::exception& e);

}  // namespace troupe::models
