// Places of recomputed units' inputs that do not stay in device memory: sizes of windows, extents of the swap file.
#pragma once

#include <cstdint>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Bytes of the window that holds the input of `unit`: whole pages, the last one padded. 0 where that input stays in
/// device memory: the unit is not recomputed, it is the first of its stage, whose input is the tokens or lies in the
/// slot of a transfer, or it is beyond `tier_options::activation_units`.
uint64_t activation_window_bytes(const job_layout& l, uint32_t unit);

/// The same with whatever passes, which choose how many units are recomputed and how many of these wait elsewhere.
uint64_t most_activation_window_bytes(const job_layout& l, uint32_t unit);

/// Which extent the input of `unit` in `micro` has: one for each unit, or in a pipeline, which has several
/// micro-batches in flight, one for each of both.
inline uint32_t activation_extent(const job_layout& l, uint32_t unit, uint32_t micro) {
  return l.options.pipeline.first_unit.empty() ? unit : unit * l.options.accumulation + micro;
}

/// Puts an extent for each such unit of the rank behind the states in the swap file; without a pipeline every
/// micro-batch overwrites it. With tier::nvme only.
void place_activations(rank_plan& p);

/// Of the swap file: those that states have, and with the most that inputs may need, whatever passes choose.
uint64_t swapped_state_bytes(const rank_plan& p);
uint64_t most_swap_file_bytes(const rank_plan& p);

/// Bytes of a micro-batch that wait for the unit's recompute: its input, and what was exchanged between its segments,
/// so that nothing is exchanged again.
uint64_t recomputed_from_bytes(const core::unit_info& unit, const plan_options& o);

}  // namespace troupe::plan
