// Records how far a training run is, and whether it is over: plain values that steps, saves and loads change.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/native/manifest.hpp"
#include "core/error.hpp"
#include "core/left_out_steps.hpp"
#include "job/loss_watch.hpp"
#include "kernels/compress/quantiser.hpp"
#include "kernels/optimizer/loss_scaler.hpp"

namespace troupe::actors {

/// The progress of training: counters that each step advances, a checkpoint stores and a load replaces.
struct training_progress {
  uint64_t steps = 0;
  uint64_t applied = 0;  ///< number of updates that the optimizer has applied; skipped steps do not count
  /// number of updates that the learning-rate schedule counts; a load may set this number without `applied`, or the
  /// reverse
  uint64_t scheduled = 0;
  kernels::loss_scale_state scale;
  /// [job::chosen_compression::layers]: ranges of the layers' inputs; empty: none measured yet
  std::vector<kernels::activation_range> input_ranges;
  /// factor that converts the last step's reduced gradients to means; none before the first step
  std::optional<double> gradient_factor;
  std::string client_state = "null";
  std::string configuration_before;  ///< configuration of the run whose checkpoint was loaded; empty: unknown or none
  std::vector<core::left_out_steps>
      left_out;                       ///< samples that the run leaves out; the loader's shape follows this list
  std::vector<double> recent_losses;  ///< losses that on_spike compares a step's loss with
  job::judged_loss judged;            ///< judgement of the last step's loss: whether it is a spike

  /// Returns the state of the loss scaler as a checkpoint stores it.
  [[nodiscard]] checkpoint::loss_scale_record scale_record() const {
    return {scale.cur_scale, scale.cur_iter, scale.last_overflow_iter, scale.cur_hysteresis};
  }
};

/// Counters from which orders to the actors get their numbers; a counter never decreases.
struct order_counts {
  uint64_t runs = 0;   ///< number of runs of plans so far, of any plan
  uint64_t loads = 0;  ///< number of loads of states since the actors were started
};

/// The reason why the run is over, if it is. Written once.
struct run_over {
  std::optional<core::error> why;
  bool states_whole = false;  ///< true: the error came before any state had changed, so saving still works
  /// The first step that lacks a micro-batch (loader_setup::first_lost_step).
  std::shared_ptr<std::atomic<uint64_t>> lost_step =
      std::make_shared<std::atomic<uint64_t>>(std::numeric_limits<uint64_t>::max());
};

}  // namespace troupe::actors
