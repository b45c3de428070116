// The order in which a lane starts its instructions.
#pragma once

#include "plan/instruction.hpp"

namespace troupe::plan {

/// Whether a lane starts instructions before their predecessors have ended; all others do one at a time, which the
/// checker relies on.
constexpr bool starts_ahead(lane l) { return l == lane::fabric || l == lane::io; }

}  // namespace troupe::plan
