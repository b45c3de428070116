// Reduced gradients between their reduction and the swap file. Owns their windows.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass: the sum that a reduction adds to is read from the file, and the result is written back, through
/// `tier_options::gradient_slots` windows. Does nothing unless reduced gradients live in files.
std::string write_gradients(draft& d, const rank_plan& p);

}  // namespace troupe::plan
