// Updates the columns that are not updated in every step: owns their deferred gradients, the choice of columns, and the
// order of choosing, updating, and applying deferred gradients. The plan defines the schedule; the device's operations
// do the arithmetic.
#pragma once

#include <vector>

#include "device/memory.hpp"
#include "kernels/operations.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

class late_updater {
 public:
  /// Updates with the operations of `device`.
  explicit late_updater(device::device_id device) : device_(device), operations_(kernels::operations_of(device)) {}

  /// Allocates memory for the gradients that `p` defers; later calls with plans of the same run do nothing. Errors: no
  /// memory.
  core::result<void> prepare(const plan::rank_plan& p);

  /// Resets the state after other states have been loaded: the next update begins with a choice and without deferred
  /// gradients.
  void begin_afresh();

  /// Executes update `step.step` for a piece of a parameter that defers (plan::defers): updates the selected columns,
  /// and defers the gradients of the others or applies those deferred so far. A run that resumes from a checkpoint
  /// begins with a choice and without deferred gradients.
  template <class State>
  void update(const plan::rank_plan& p, const plan::owned_piece& piece, const kernels::optimizer_options& options,
              const kernels::optimizer_step& step, const kernels::optimizer_piece<State>& states);

 private:
  struct matrix {
    uint64_t offset = 0;  ///< offset of the matrix's deferred gradients in `deferred_`, in elements
    uint64_t summed = 0;  ///< number of gradients that `sums` adds up
    /// Flags by column: 1 if the column is updated in every step; empty before the first choice
    std::vector<uint8_t> selected{};
    std::vector<double> sums{};  ///< sum of the absolute values of the gradient at the last choice, by column
  };
  device::device_id device_;
  const kernels::operations& operations_;
  std::vector<matrix> matrices_;  // state of deferred updates, by parameter
  device::memory deferred_;
  bool prepared_ = false;
};

}  // namespace troupe::actors
