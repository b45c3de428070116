// A rank's deferred gradients of columns that are not updated in every step, and the choice of these columns.
// Owns that memory and the order of choosing, updating and landing; the schedule is the plan's, the arithmetic
// the device's.
#pragma once

#include <vector>

#include "device/memory.hpp"
#include "kernels/operations.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

class late_updater {
 public:
  /// Updates by the operations of `device`.
  explicit late_updater(device::device_id device) : device_(device), operations_(kernels::operations_of(device)) {}

  /// Room for the gradients that `p` defers; later calls with plans of the same run do nothing.
  core::result<void> prepare(const plan::rank_plan& p);

  /// Other states have been loaded: the next update begins with a choice and without deferred gradients.
  void begin_afresh();

  /// The part of update `step.step` that is done in this step, for parameters that defer (plan::defers). A run that
  /// resumes from a checkpoint begins with a choice and without deferred gradients.
  template <class State>
  void update(const plan::rank_plan& p, const plan::owned_piece& piece, const kernels::optimizer_options& options,
              const kernels::optimizer_step& step, const kernels::optimizer_piece<State>& states);

 private:
  struct matrix {
    uint64_t offset = 0;              ///< of its deferred gradients, in elements
    uint64_t summed = 0;              ///< gradients in its sums
    std::vector<uint8_t> selected{};  ///< [column]; empty before the first choice
    std::vector<double> sums{};       ///< [column]
  };
  device::device_id device_;
  const kernels::operations& operations_;
  std::vector<matrix> matrices_;  // [parameter]
  device::memory deferred_;
  bool prepared_ = false;
};

}  // namespace troupe::actors
