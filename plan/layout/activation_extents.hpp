// Owns the memory for the inputs of recomputed units that do not stay in device memory: sizes of windows (slots in host
// memory), and extents of the swap file.
#pragma once

#include <cstdint>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Bytes of the window that holds the input of `unit`: whole pages, the last one padded. 0 if the input stays in device
/// memory: if the unit is not recomputed, if it is beyond `tier_options::activation_units`, or if it is the first unit
/// of its stage, whose input is the tokens or is in the slot of a transfer.
uint64_t activation_window_bytes(const job_layout& l, uint32_t unit);

/// Upper bound of activation_window_bytes for every choice of the passes, which decide how many units are recomputed
/// and how many of these inputs are offloaded.
uint64_t most_activation_window_bytes(const job_layout& l, uint32_t unit);

/// Returns the number of the extent that holds the input of `unit` in `micro`: one extent for each unit; in a pipeline,
/// which has several micro-batches in flight, one for each unit and micro-batch.
inline uint32_t activation_extent(const job_layout& l, uint32_t unit, uint32_t micro) {
  return l.options.pipeline.first_unit.empty() ? unit : unit * l.options.accumulation + micro;
}

/// Places an extent for the input of each unit of the rank that is recomputed and offloaded. The extents follow the
/// states in the swap file. Without a pipeline every micro-batch overwrites the extent. Extents are empty unless
/// activations are on tier::nvme.
void place_activations(rank_plan& p);

/// Bytes of the swap file that states occupy.
uint64_t swapped_state_bytes(const rank_plan& p);
/// Upper bound of the swap file's bytes, for every choice of the passes about the inputs of units.
uint64_t most_swap_file_bytes(const rank_plan& p);

/// Bytes of a micro-batch that are kept for the unit's recompute: the unit's input, and the results of the exchanges
/// between its segments, so that no exchange is repeated.
uint64_t recomputed_from_bytes(const core::unit_info& unit, const plan_options& o);

}  // namespace troupe::plan
