// Minimises a sum of squares within bounds by the method of Levenberg and Marquardt. Source: Marquardt 1963, "An
// algorithm for least-squares estimation of nonlinear parameters"; variables at a bound stay there while the descent
// points out of it.
#pragma once

#include <functional>
#include <vector>

namespace troupe::hardware {

struct bounded_variable {
  double start = 0, low = 0, high = 0;
};

/// Returns the values of the variables at which the sum of squares of `residuals` is least, as far as descent from the
/// start finds it. `residuals` returns the same number of finite values for any variables within the bounds; there are
/// at least as many residuals as variables.
std::vector<double> least_squares(const std::vector<bounded_variable>& variables,
                                  const std::function<std::vector<double>(const std::vector<double>&)>& residuals);

}  // namespace troupe::hardware
