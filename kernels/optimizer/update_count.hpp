// Tells which optimizers' updates depend on the number of earlier updates. Leaves the formulas to each optimizer's
// file.
#pragma once

#include "kernels/optimizer/optimizer.hpp"

namespace troupe::kernels {

/// True if, from the second update on, an optimizer's updates depend on the number of earlier updates and not only on
/// the moments: by bias correction, or by a rate that decays by itself. If a checkpoint lacks that number, the moments
/// of such an optimizer must not be used.
bool depends_on_count(const optimizer_options& options);

}  // namespace troupe::kernels
