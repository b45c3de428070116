// Gathers as late as computation hides them: the least memory for the same time. Part of the residency pass, behind it:
// that decides what is gathered for which use, this where a gather stands that nothing but its own use needs.
#pragma once

#include <cstdint>

#include "plan/draft.hpp"

namespace troupe::plan {

/// Moves each use's gather so far ahead that the computation between has the flops of `gather_options::hidden`, and no
/// further; never before the release of the unit's last gather, nor past another use's gather. Of gathers that stand as
/// they were written, in front of their use. Returns how many were moved. After DeepCompile's list scheduler: its order
/// of computation is fixed here, so what is left of it is to gather late and to release at once.
uint32_t gather_late(draft& d, const rank_plan& p);

}  // namespace troupe::plan
