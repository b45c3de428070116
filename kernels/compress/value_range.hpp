// Defines the range of several values, from which the grid of a group follows (quantiser.hpp).
#pragma once

#include <cmath>

namespace troupe::kernels {

/// The least and the largest of several values; both are NaN if one of the values is NaN.
template <class Real>
struct value_range {
  Real least = 0, largest = 0;
};

/// Returns the range that contains both ranges; NaN if one of them is NaN. {infinity, -infinity} is the range of no
/// values, and changes nothing.
inline value_range<double> joined(const value_range<double>& a, const value_range<double>& b) {
  if (std::isnan(a.least) || std::isnan(b.least)) return {std::nan(""), std::nan("")};
  return {std::fmin(a.least, b.least), std::fmax(a.largest, b.largest)};
}

}  // namespace troupe::kernels
