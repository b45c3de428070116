// Which units make which stage of a pipeline. Owns the cuts as arithmetic over a list of units; what a unit costs, and
// which names a pattern matches, is the caller's.
//
// A cut of n units into p stages is p + 1 offsets, the first 0, the last n: stage s has units [offset s, offset s + 1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/error.hpp"

namespace troupe::plan {

using stage_offsets = std::vector<uint32_t>;

/// Equal counts, the first stages with one more. Fewer units than stages: one each, the last stages empty. Source:
/// DeepSpeed 0.19, runtime/utils.py, partition_uniform; same offsets.
stage_offsets cut_evenly(uint32_t units, uint32_t stages);

/// Least difference between the heaviest and the lightest stage, as DeepSpeed's partition_balanced finds it: one
/// candidate for each part of the list, which may miss the best; the last of equals. Same offsets as DeepSpeed's, for
/// `parameters` with the trainable elements of each unit, for `type:REGEX` with 1 for each that matches. Where nothing
/// has weight its rule piles units up in the first stage: a caller would rather cut evenly, or refuse.
stage_offsets cut_by_weight(std::span<const double> weights, uint32_t stages);

/// Offsets that somebody wrote. Errors (bad_input): not one more than the stages, not from 0 to `units`, a stage
/// without units.
core::result<stage_offsets> check_offsets(stage_offsets offsets, uint32_t units, uint32_t stages);

/// A unit as `best` sees it.
struct unit_cost {
  double step_s = 0;              ///< forward and backward of one micro-batch
  uint64_t state_bytes = 0;       ///< parameters, gradients, optimizer states on the rank of its stage
  uint64_t activation_bytes = 0;  ///< kept per micro-batch in flight
};

/// What a stage has beside its units, and how much it may have.
struct stage_limits {
  double first_s = 0, last_s = 0;            ///< more work of the first and last stage: input, loss
  uint64_t first_bytes = 0, last_bytes = 0;  ///< more bytes of these
  std::vector<uint32_t> in_flight;           ///< [stage] micro-batches whose activations it keeps; none: 1 each
  uint64_t memory_bytes = UINT64_MAX;        ///< of a stage
  uint64_t activation_bytes = UINT64_MAX;    ///< of these, activations of all micro-batches in flight
};

/// A cut by time, and the stage that bounds the step.
struct best_cut {
  stage_offsets offsets;
  uint32_t slowest = 0;  ///< the first of the slowest stages
  double slowest_s = 0;
};

/// The cut whose slowest stage is fastest, of all cuts where each stage has a unit and fits; among these the one with
/// the least sum of squared times, then the one whose offsets are the smaller from behind. Exact.
///
/// Errors (bad_input): fewer units than stages; (no_space): no cut fits.
core::result<best_cut> cut_best(std::span<const unit_cost> units, uint32_t stages, const stage_limits& limits);

}  // namespace troupe::plan
