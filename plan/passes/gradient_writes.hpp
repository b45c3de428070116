// Owns the windows of reduced gradients between their reduction and the swap file.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass that writes gradients: before a reduction, the sum that it adds to is read from the file; after it the
/// result is written back, through `tier_options::gradient_slots` windows. Does nothing unless reduced gradients are
/// stored in files.
std::string write_gradients(draft& d, const rank_plan& p);

}  // namespace troupe::plan
