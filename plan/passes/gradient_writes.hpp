// Reduced gradients between their reduction and the swap file. Owns their windows.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass: what a reduction adds to is read back, and what came of it is written, through
/// `tier_options::gradient_slots` windows. Nothing but where reduced gradients live in files.
std::string write_gradients(draft& d, const rank_plan& p);

}  // namespace troupe::plan
