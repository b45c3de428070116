// Which optimizers count their updates. Owns that question alone; the formulas are each optimizer's.
#pragma once

#include "kernels/optimizer/optimizer.hpp"

namespace troupe::kernels {

/// Whether an update, from the second on, is another one after more updates with the same moments: bias correction, a
/// rate that decays by itself. Moments whose count is lost mean nothing to such an optimizer.
bool depends_on_count(const optimizer_options& options);

}  // namespace troupe::kernels
