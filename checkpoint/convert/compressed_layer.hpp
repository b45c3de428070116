// The report on weights that were written in fewer bits, for every format.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::checkpoint {

/// Rounding errors of elements: sums of squares of the errors and of the values, and the largest error.
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
  /// Returns |weight - stored value| / |weight|.
  [[nodiscard]] double relative() const { return squares > 0 ? std::sqrt(error_squares / squares) : 0; }
};

/// One compressed weight.
struct compressed_layer {
  std::string name;  ///< name of the module (compressed-tensors) or of the tensor (GGUF)
  uint64_t rows = 0, columns = 0;
  double bits = 0;           ///< stored bits per element of the weight, scales and zero points included
  double error = 0;          ///< |weight - stored value| / |weight|, in Euclidean norms
  double largest_error = 0;  ///< largest |weight - stored value| of one element
};

/// All compressed weights, and the sizes of source and output.
struct compression_report {
  std::vector<compressed_layer> layers;
  uint64_t weights = 0;  ///< number of elements of all weights, compressed or not
  uint64_t source_bytes = 0, tensor_bytes = 0;
};

}  // namespace troupe::checkpoint
