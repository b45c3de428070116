// Records how far a training run is, and whether it is over: plain values that steps, saves and loads change.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/left_out_steps.hpp"
#include "formats/source/run_records.hpp"
#include "job/loss_watch.hpp"
#include "kernels/compress/quantiser.hpp"
#include "kernels/optimizer/loss_scaler.hpp"

namespace troupe::actors {

/// The progress of training: counters that each step advances, a checkpoint stores and a load replaces.
struct training_progress {
  uint64_t steps = 0;
  uint64_t applied = 0;  ///< number of updates that the optimizer has applied; skipped steps do not count
  /// position of the learning-rate schedule, in updates; after a load, `applied` may differ from it
  uint64_t scheduled = 0;
  kernels::loss_scale_state scale;
  /// [index in job::chosen_compression::layers]: value range of the layer's inputs so far; empty: none measured yet
  std::vector<kernels::activation_range> input_ranges;
  /// factor that converts the last step's reduced gradients to means; none before the first step
  std::optional<double> gradient_factor;
  std::string client_state = "null";
  std::string configuration_before;  ///< configuration of the run whose checkpoint was loaded; empty: unknown or none
  std::vector<core::left_out_steps>
      left_out;                       ///< decisions on samples that the run leaves out; the loader must have the same
  std::vector<double> recent_losses;  ///< losses that on_spike compares a step's loss with
  /// Values of optimizer groups that the host program has set, by the groups' names; each has one of its values
  std::vector<formats::group_change> group_changes;
  job::judged_loss judged;  ///< judgement of the last step's loss: whether it is a spike

  /// Returns the state of the loss scaler as a checkpoint stores it.
  [[nodiscard]] formats::loss_scale_record scale_record() const {
    return {scale.cur_scale, scale.cur_iter, scale.last_overflow_iter, scale.cur_hysteresis};
  }
};

/// Counters whose values are part of each order to the actors; they never decrease.
struct order_counts {
  uint64_t runs = 0;   ///< number of runs of plans so far, of any plan
  uint64_t loads = 0;  ///< number of times that states were loaded since the session was opened
};

/// The reason why the run has ended, if it has. A run that recovers from a loss of processes clears it.
struct run_over {
  std::optional<core::error> why;
  bool states_whole = false;  ///< true: the error came before a state had changed, so the states can be saved
  /// Number of the first training step of which the loader could not read a micro-batch; the largest number: none.
  std::shared_ptr<std::atomic<uint64_t>> lost_step =
      std::make_shared<std::atomic<uint64_t>>(std::numeric_limits<uint64_t>::max());
};

}  // namespace troupe::actors
