// Places of recomputed units' inputs that do not stay in device memory: sizes of windows, extents of the swap file.
#pragma once

#include <cstdint>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Bytes of the window that holds the input of `unit`: whole pages, the last one padded. 0 where that input stays in
/// device memory: nothing is recomputed, the unit is the first, whose input is the tokens, or it is beyond
/// `tier_options::activation_units`.
uint64_t activation_window_bytes(const job_layout& l, uint32_t unit);

/// Puts an extent for each such unit behind the states in the swap file; every micro-batch overwrites it. With
/// tier::nvme only.
void place_activations(rank_plan& p);

}  // namespace troupe::plan
