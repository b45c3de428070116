// Owns the choice of the units that make each stage of a pipeline, as arithmetic over a list of units. Callers provide
// the cost of a unit, and the names that a pattern matches.
//
// A cut of n units into p stages is p + 1 offsets, the first 0, the last n: stage s has units [offset s, offset s + 1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/error.hpp"

namespace troupe::plan {

using stage_offsets = std::vector<uint32_t>;

/// Returns stages with equal counts of units, the first stages with one more. If there are fewer units than stages,
/// each unit is a stage and the last stages are empty. Source: DeepSpeed 0.19, runtime/utils.py, partition_uniform;
/// same offsets.
stage_offsets cut_evenly(uint32_t units, uint32_t stages);

/// Returns the cut with the least difference between the heaviest and the lightest stage, as DeepSpeed's
/// partition_balanced finds it: it tries one candidate for each part of the list, so it may miss the best cut, and of
/// equal ones it returns the last.
/// The offsets equal DeepSpeed's, for `parameters` with the trainable elements of each unit, for `type:REGEX` with 1
/// for each unit that matches. If all weights are 0, DeepSpeed's rule puts the units into the first stage; a caller
/// should then cut evenly, or refuse.
stage_offsets cut_by_weight(std::span<const double> weights, uint32_t stages);

/// Returns offsets that a user has written, after checking them. Errors (bad_input): not one offset more than the
/// stages, not from 0 to `units`, a stage without units.
core::result<stage_offsets> check_offsets(stage_offsets offsets, uint32_t units, uint32_t stages);

/// The costs of one unit; cut_best() adds up the costs of a stage's units.
struct unit_cost {
  double step_s = 0;              ///< seconds of the unit's forward and backward for one micro-batch
  uint64_t state_bytes = 0;       ///< bytes of the unit's parameters, gradients and optimizer states on its rank
  uint64_t activation_bytes = 0;  ///< bytes that the unit keeps for each micro-batch in flight
};

/// The memory limits of a stage.
struct stage_limits {
  std::vector<uint32_t> in_flight;     ///< [stage]: number of micro-batches whose activations it keeps; empty: 1 each
  uint64_t memory_bytes = UINT64_MAX;  ///< limit of all bytes of a stage
  /// limit of the activations of all micro-batches in flight, which are part of memory_bytes
  uint64_t activation_bytes = UINT64_MAX;
};

/// A division of units into stages by time, and the stage that bounds the step.
struct best_cut {
  stage_offsets offsets;
  uint32_t slowest = 0;  ///< number of the slowest stage; the first one if several are equally slow
  double slowest_s = 0;
};

/// Returns the cut whose slowest stage is fastest, of all cuts in which each stage has a unit and exceeds no memory
/// limit of `limits`. Among several, returns the cut with the least sum of squared times; among several of these, the
/// cut whose offsets, compared from the last to the first, are smallest. Exact.
///
/// Errors (bad_input): fewer units than stages; (no_space): every cut exceeds a memory limit.
core::result<best_cut> cut_best(std::span<const unit_cost> units, uint32_t stages, const stage_limits& limits);

}  // namespace troupe::plan
