// Gradient clipping: the factor that keeps the norm of the mean gradient within its limit. Callers compute the norm and
// apply the factor.
#pragma once

#include <algorithm>

namespace troupe::kernels {

/// Returns the number that gradients are divided by so that their norm, `norm`, becomes at most `limit`; at least 1,
/// and 1 if `limit` is 0, which means that there is none. The formula, with the 1e-6, is DeepSpeed's. A norm that is
/// NaN gives 1, an infinite one an infinite factor.
inline double clip_factor(double norm, double limit) { return limit > 0 ? std::max(1.0, (norm + 1e-6) / limit) : 1.0; }

}  // namespace troupe::kernels
