// Owns the rule that decides in which lanes instructions may overlap.
#pragma once

#include "plan/instruction.hpp"

namespace troupe::plan {

/// True if lane `l` starts instructions before their predecessors have ended. All other lanes run one instruction at a
/// time, and the checker relies on this.
constexpr bool starts_ahead(lane l) { return l == lane::fabric || l == lane::io; }

}  // namespace troupe::plan
