// The values of compressed weights as bytes that can be read at any place: what codes and scales of files mean, worked
// out a few rows at a time. Owns the places of the parts; the arithmetic is stored_weight.hpp's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/compressed/stored_weight.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Elements that are worked out at once; a longer row alone is worked out whole.
inline constexpr uint64_t decompressed_block_elements = uint64_t{1} << 18;

/// A tensor of a file of the file system's.
struct stored_part {
  source_file file;
  uint64_t offset_bytes = 0;
};

/// Rows and columns of codes that share a scale, the last ones of a weight fewer.
struct scale_blocks {
  uint64_t rows = 1, columns = 1;
};

/// One weight, and where its parts are.
struct decompressed_weight {
  std::string name;
  compressed_matrix matrix;
  stored_part codes, scales;
  std::optional<stored_part> zeros{};
  float global_scale = 1;
  bool one_scale = false;                ///< for all of it
  std::optional<scale_blocks> blocks{};  ///< scales are a matrix, one for each; the scheme's groups say nothing then
  uint64_t begin_bytes = 0;              ///< of its values, behind those of the weights before
};

/// All of a folder, one behind the other.
class decompressed_weights final : public source_view {
 public:
  explicit decompressed_weights(std::vector<decompressed_weight> weights) : weights_(std::move(weights)) {}
  /// Reading from it opens the files that it needs, and refuses one that has another length than it had.
  [[nodiscard]] core::result<std::unique_ptr<input_file>> open(file_system& files) const override;
  [[nodiscard]] bool is_compressed() const override { return true; }

 private:
  std::vector<decompressed_weight> weights_;  ///< ascending by begin_bytes
};

}  // namespace troupe::checkpoint
