// Determines which optimizers count their updates. Leaves the formulas to each optimizer's file.
#pragma once

#include "kernels/optimizer/optimizer.hpp"

namespace troupe::kernels {

/// True if an update, from the second on, depends on the number of earlier updates and not only on the moments: by bias
/// correction, or by a rate that decays by itself. If the count is lost, such an optimizer's moments are useless.
bool depends_on_count(const optimizer_options& options);

}  // namespace troupe::kernels
