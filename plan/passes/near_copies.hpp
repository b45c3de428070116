// Gathers from the second copy of parameters: a unit's first gather of a step is from all shards, and what it brought
// is kept among neighbours, from whom the later ones are. Owns which gather reads what.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass: behind the first release of a unit, which keeps this rank's part, its gathers are from the second copy, in
/// a step that trains. Does nothing where there is none. Source: ZeRO++'s hpZ, whose copy lasts until the update as
/// well.
std::string gather_near(draft& d, const rank_plan& p);

}  // namespace troupe::plan
