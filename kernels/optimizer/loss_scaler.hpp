// The loss scale of fp16 training, as a pure function of its last state. Owns the rule by which the scale changes;
// callers detect overflows, skip the step and save the state.
#pragma once

#include <cstdint>

#include "core/error.hpp"

namespace troupe::kernels {

/// Options of dynamic loss scaling, named like the keys of DeepSpeed's fp16 section.
struct loss_scale_options {
  double loss_scale = 0;                ///< loss scale, fixed if above 0; 0: the scale is dynamic
  uint32_t initial_scale_power = 16;    ///< exponent of the first dynamic loss scale, which is 2^this
  uint64_t loss_scale_window = 1000;    ///< number of steps without overflow between two doublings of the loss scale;
                                        ///< at least 1
  uint32_t hysteresis = 2;              ///< number of overflows until the loss scale is halved; at least 1
  bool consecutive_hysteresis = false;  ///< true: every step without overflow refills the hysteresis
  double min_loss_scale = 1;
};

/// State of dynamic loss scaling; a checkpoint stores it.
struct loss_scale_state {
  double cur_scale = 1;
  int64_t cur_iter = 0;
  int64_t last_overflow_iter = -1;
  uint32_t cur_hysteresis = 1;
  friend bool operator==(const loss_scale_state&, const loss_scale_state&) = default;
};

/// Checks the options of a loss scale. Errors (bad_input), by key: a scale that is not a finite number of at least 0;
/// for a dynamic scale, an initial scale above the largest number, a least scale that is not above 0, a window or
/// hysteresis of 0.
core::result<void> check(const loss_scale_options& options);

/// Returns the state before the first step. For options that check() refuses, returns a state that next_loss_scale()
/// refuses, too.
loss_scale_state first_loss_scale(const loss_scale_options& options);

/// Returns the state for the next optimizer step; `overflow`: true if this step's gradients overflowed. This step's
/// gradients are divided by the scale of `state`, which they were multiplied with. Errors: a dynamic scale that would
/// have to go below its least value, and (bad_input) options or a state that no run has.
core::result<loss_scale_state> next_loss_scale(const loss_scale_options& options, loss_scale_state state,
                                               bool overflow);

}  // namespace troupe::kernels
