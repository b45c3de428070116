// Stores a curve of any length in bounded memory: joins neighbours and keeps their minimum, maximum and mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::telemetry {

/// Limit of the bins of a series; a picture has at most twice as many points.
inline constexpr size_t series_bins_limit = 512;

struct series_bin {  ///< neighbouring values joined into one bin
  double first_x = 0, last_x = 0;
  double least = 0, least_x = 0, greatest = 0, greatest_x = 0;
  double sum = 0;
  uint64_t count = 0;
  [[nodiscard]] double mean() const { return sum / double(count); }
  [[nodiscard]] double middle() const { return (first_x + last_x) / 2; }
};

class thinned_series {  ///< stores a curve in at most series_bins_limit bins, which it joins when they become too many
 public:
  /// Adds a value. `x` never decreases, except after a cut. A value that is not finite is counted and omitted.
  void add(double x, double y);
  /// Removes the bins beyond `x`. A bin that begins before `x` keeps all values that were joined in it, and the counts
  /// do not change. last() becomes the mean of the last bin.
  void cut(double x);

  [[nodiscard]] const std::vector<series_bin>& bins() const { return bins_; }
  [[nodiscard]] bool empty() const { return bins_.empty(); }
  [[nodiscard]] double last() const { return last_; }
  [[nodiscard]] uint64_t num_values() const { return num_values_; }
  [[nodiscard]] uint64_t num_not_finite() const { return num_not_finite_; }
  /// Returns the number of values in a full bin; 1: no values have been joined.
  [[nodiscard]] uint64_t values_per_bin() const { return values_per_bin_; }

 private:
  std::vector<series_bin> bins_;
  uint64_t values_per_bin_ = 1, num_values_ = 0, num_not_finite_ = 0;
  double last_ = 0;
};

}  // namespace troupe::telemetry
