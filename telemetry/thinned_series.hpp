// A curve of any length in bounded memory: neighbours are joined, their least, greatest and mean values kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::telemetry {

/// Bins that a series keeps; a picture has at most twice as many points.
inline constexpr size_t series_bins_limit = 512;

struct series_bin {  ///< neighbouring values as one
  double first_x = 0, last_x = 0;
  double least = 0, least_x = 0, greatest = 0, greatest_x = 0;
  double sum = 0;
  uint64_t count = 0;
  [[nodiscard]] double mean() const { return sum / double(count); }
  [[nodiscard]] double middle() const { return (first_x + last_x) / 2; }
};

class thinned_series {  ///< a series of bounded length
 public:
  /// `x` never falls, but behind a cut. A value that is not finite is counted and left out.
  void add(double x, double y);
  /// Leaves out what lies beyond `x`; values that were joined across it stay, and so do the counts. The last value
  /// is then that of the last bin.
  void cut(double x);

  [[nodiscard]] const std::vector<series_bin>& bins() const { return bins_; }
  [[nodiscard]] bool empty() const { return bins_.empty(); }
  [[nodiscard]] double last() const { return last_; }
  [[nodiscard]] uint64_t num_values() const { return num_values_; }
  [[nodiscard]] uint64_t num_not_finite() const { return num_not_finite_; }
  /// Values in a full bin; 1: nothing has been joined.
  [[nodiscard]] uint64_t values_per_bin() const { return values_per_bin_; }

 private:
  std::vector<series_bin> bins_;
  uint64_t values_per_bin_ = 1, num_values_ = 0, num_not_finite_ = 0;
  double last_ = 0;
};

}  // namespace troupe::telemetry
