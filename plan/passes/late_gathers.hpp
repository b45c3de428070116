// Moves gathers to later positions in a step: the computation between a gather and its use remains just long enough to
// overlap with the whole transfer, so that gathered parameters occupy memory for the shortest time without making the
// step slower. The prefetch pass decides first which gather provides the parameters of which use; this file then
// decides the position of each gather that a single use reads.
#pragma once

#include <cstdint>

#include "plan/draft.hpp"

namespace troupe::plan {

/// Moves each use's gather only so far ahead that the computation between gather and use has the flops of
/// `gather_options::hidden`. A gather never moves before the release of the unit's previous gather, nor past another
/// use's gather. Only gathers that are still directly before their use are moved. Returns how many were moved.
/// Source: DeepCompile's list scheduler. The order of computation is fixed here, so only two of its rules remain:
/// gather late, and release directly after the use.
uint32_t gather_late(draft& d, const rank_plan& p);

}  // namespace troupe::plan
