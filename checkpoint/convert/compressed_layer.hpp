// A weight that was written in fewer bits, as people are told of it, whatever the format.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::checkpoint {

/// Sums over elements, of what was lost, and the most that one of them lost.
struct rounding_error {
  double error_squares = 0, squares = 0, largest = 0;

  void add(std::span<const float> values, std::span<const float> stored) {
    double error = 0, all = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = values[i], difference = value - static_cast<double>(stored[i]);
      error += difference * difference;
      largest = std::max(largest, std::fabs(difference));
      all += value * value;
    }
    error_squares += error;
    squares += all;
  }
  /// |weight - stored value| / |weight|.
  [[nodiscard]] double relative() const { return squares > 0 ? std::sqrt(error_squares / squares) : 0; }
};

/// One of them.
struct compressed_layer {
  std::string name;  ///< the module's, or the tensor's as the file calls it
  uint64_t rows = 0, columns = 0;
  double bits = 0;           ///< of all that is stored of its weight, by element
  double error = 0;          ///< rounding_error::relative()
  double largest_error = 0;  ///< of |weight - stored value|
};

/// All of them, and what is beside them.
struct compression_report {
  std::vector<compressed_layer> layers;
  uint64_t weights = 0;  ///< elements, compressed or not
  uint64_t source_bytes = 0, tensor_bytes = 0;
};

}  // namespace troupe::checkpoint
