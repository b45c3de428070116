// The loss scale of fp16 training, computed from its state after the previous step. Owns the rule by which the scale
// changes; callers detect overflows, skip the step and save the state.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "core/training_types.hpp"

namespace troupe::kernels {

using core::loss_scale_options;

/// State of dynamic loss scaling; a checkpoint stores it.
struct loss_scale_state {
  double cur_scale = 1;
  int64_t cur_iter = 0;
  int64_t last_overflow_iter = -1;
  uint32_t cur_hysteresis = 1;
  friend bool operator==(const loss_scale_state&, const loss_scale_state&) = default;
};

/// Checks the options of a loss scale. Errors (bad_input), which name the key: a scale that is not a finite number of
/// at least 0; for a dynamic scale, an initial scale beyond the largest number, a least scale that is not above 0, a
/// window or hysteresis of 0.
core::result<void> check(const loss_scale_options& options);

/// Returns the state of the loss scale before the first step. For options that check() refuses, the state is one that
/// next_loss_scale() refuses.
loss_scale_state first_loss_scale(const loss_scale_options& options);

/// Returns the state for the next optimizer step; `overflow`: true if this step's gradients overflowed. This step's
/// gradients were multiplied with the scale in `state` and must be divided by it, not by the scale in the returned
/// state. Errors: a dynamic scale that would have to go below its least value; (bad_input) options that check()
/// refuses, or a state with values that no run reaches.
core::result<loss_scale_state> next_loss_scale(const loss_scale_options& options, loss_scale_state state,
                                               bool overflow);

}  // namespace troupe::kernels
