// Predicts the peak of memory of one GPU of the fullest pipeline stage. Owns the breakdown, whose parts add up to the
// peak.
#pragma once

#include "core/error.hpp"
#include "hardware/constants.hpp"
#include "hardware/workload.hpp"

namespace troupe::hardware {

/// Bytes of the fullest stage; the five parts add up to peak_bytes exactly, in this order.
struct memory_cost {
  double states_bytes = 0;       ///< parameters, gradients and the optimizer's states
  double activations_bytes = 0;  ///< what forward keeps for backward, for all micro-batches in flight
  double work_bytes = 0;         ///< work area of one layer, and what ZeRO 2 and 3 hold whole of one
  double logits_bytes = 0;
  double context_bytes = 0;  ///< the device's context, buffers of collectives, fragmentation
  double peak_bytes = 0;
};

/// Returns the peak. All constants that the workload needs must be present: see needs_of_memory().
memory_cost cost_of_memory(const workload& w, const constants& c);

/// Refuses a workload for whose memory a constant is absent, by the constant's name.
core::result<void> needs_of_memory(const workload& w, const constants& c);

}  // namespace troupe::hardware
