// Owns the moves that make each gather as late as computation can still hide it: the least memory for the same time.
// The pass in prefetch.hpp calls this after it has decided which gather serves which use; this file then decides the
// position of a gather that only its own use needs.
#pragma once

#include <cstdint>

#include "plan/draft.hpp"

namespace troupe::plan {

/// Moves each use's gather only so far ahead that the computation between gather and use has the flops of
/// `gather_options::hidden`. A gather never moves before the release of the unit's previous gather, nor past another
/// use's gather. Only gathers that are still directly before their use are moved. Returns how many were moved.
/// Source: DeepCompile's list scheduler. The order of computation is fixed here, so only two of its rules remain:
/// gather late, and release at once.
uint32_t gather_late(draft& d, const rank_plan& p);

}  // namespace troupe::plan
