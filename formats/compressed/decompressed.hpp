// The values of compressed weights as bytes that can be read at any offset. Codes and scales are read from files and
// decoded a few rows at a time. Owns the positions of codes and scales in files; leaves the arithmetic to
// stored_weight.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/compressed/stored_weight.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Number of elements that are decoded at once; a row that is longer is decoded whole.
inline constexpr uint64_t decompressed_block_elements = uint64_t{1} << 18;

/// File and byte offset of a stored tensor.
struct stored_part {
  source_file file;
  uint64_t offset_bytes = 0;
};

/// One compressed weight, and where its codes, scales and zero points are stored.
struct decompressed_weight {
  std::string name;
  compressed_matrix matrix;
  stored_part codes, scales;
  std::optional<stored_part> zeros{};
  float global_scale = 1;
  bool one_scale = false;  ///< true: one scale applies to the whole weight
  /// Size of the blocks if the scales are a matrix with one scale for each block, of which the last may be smaller; the
  /// scheme's groups are then ignored.
  std::optional<scale_blocks> blocks{};
  uint64_t begin_bytes = 0;  ///< byte offset of this weight's first value among the decoded values of all weights
};

/// A source file that consists of the decompressed values of all compressed weights of a folder, one after the other.
class decompressed_weights final : public source_view {
 public:
  explicit decompressed_weights(std::vector<decompressed_weight> weights) : weights_(std::move(weights)) {}
  /// Returns a view of the decompressed values as one file. Its reads open the files that store codes, scales and zero
  /// points, and fail if the length of one of these files has changed.
  [[nodiscard]] core::result<std::unique_ptr<storage::input_file>> open(storage::file_system& files) const override;
  [[nodiscard]] bool is_compressed() const override { return true; }

 private:
  std::vector<decompressed_weight> weights_;  ///< the weights, ascending by begin_bytes
};

/// Adds `weights` to `s`: a tensor for each, which holds all of its values, and a virtual file of these values. Sets
/// begin_bytes of the weights. Call complete() afterwards.
void add_decompressed(tensor_source& s, std::vector<decompressed_weight> weights);

}  // namespace troupe::formats
