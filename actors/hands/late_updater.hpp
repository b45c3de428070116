// Updates weight matrices of which only selected columns are updated in every step, and all other columns every few
// steps (zenflow). Owns the deferred gradients, the choice of columns, and the order of choosing, updating, and
// applying deferred gradients. The plan defines the schedule; the device's operations do the arithmetic.
#pragma once

#include <vector>

#include "device/memory.hpp"
#include "kernels/operations.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

class late_updater {
 public:
  /// `device`: the device whose operations compute the updates.
  explicit late_updater(device::device_id device) : device_(device), operations_(kernels::operations_of(device)) {}

  /// Allocates memory for the gradients whose update plan `p` defers to a later step; later calls with plans of the
  /// same run do nothing. Errors: no memory.
  core::result<void> prepare(const plan::rank_plan& p);

  /// Drops deferred gradients and the choice of columns, because other states were loaded: the next update chooses
  /// columns again.
  void begin_afresh();

  /// Executes update number `step.step` for `piece`, a piece of a matrix whose updates are deferred (plan::defers):
  /// updates the selected columns, adds the gradients of all other columns to their deferred gradients, and in the
  /// steps that the plan defines updates these columns by the deferred gradients. A run that resumes from a checkpoint
  /// begins without deferred gradients, and chooses columns first.
  template <class State>
  void update(const plan::rank_plan& p, const plan::owned_piece& piece, const kernels::optimizer_options& options,
              const kernels::optimizer_step& step, const kernels::optimizer_piece<State>& states);

 private:
  struct matrix {
    uint64_t offset = 0;  ///< offset of the matrix's deferred gradients in `deferred_`, in elements
    uint64_t summed = 0;  ///< number of steps whose gradients the matrix's deferred gradients sum up
    /// [column]: 1 if the column is selected to be updated in every step; empty before the first choice
    std::vector<uint8_t> selected{};
    std::vector<double> sums{};  ///< [column]: sum of the gradient's absolute values at the last choice
  };
  device::device_id device_;
  const kernels::operations& operations_;
  std::vector<matrix> matrices_;  // [parameter]; unused for one whose updates are not deferred
  device::memory deferred_;
  bool prepared_ = false;
};

}  // namespace troupe::actors
