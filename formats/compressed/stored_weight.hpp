// The tensors of one compressed weight: names, types, shapes, and the conversion between rows of values and rows of
// these tensors. Owns the layout of a weight; leaves reading and writing of bytes to the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "formats/compressed/scheme.hpp"

namespace troupe::formats {

/// The content of one tensor of a compressed weight.
enum class weight_part : uint8_t { codes, scales, zeros, shape, global_scale };

/// One tensor of a compressed weight; `suffix` replaces `weight` after the module's name.
struct part_tensor {
  weight_part part = weight_part::codes;
  std::string_view suffix;
  core::dtype type = core::dtype::i32;
  std::vector<int64_t> shape;
  bool is_e4m3 = false;
};

/// A matrix (out x in) compressed with a scheme.
struct compressed_matrix {
  uint64_t rows = 0, columns = 0;
  weight_scheme scheme;

  [[nodiscard]] uint64_t group() const { return scheme.group_size > 0 ? scheme.group_size : columns; }
  [[nodiscard]] uint64_t groups_of_row() const { return columns / group(); }
  /// Returns the size in bytes of the codes of one row.
  [[nodiscard]] uint64_t code_row_bytes() const;
  [[nodiscard]] core::dtype scale_type() const;
};
/// Returns an error if the matrix has no elements, if its groups do not divide a row (the message lists sizes that
/// would), or if a row has an odd number of 4-bit floating-point codes.
core::result<void> check(const compressed_matrix& m);

/// Returns the tensors that store the matrix, named as in compressed-tensors.
std::vector<part_tensor> parts_of(const compressed_matrix& m);

/// Computes the scales of `values`, which are whole rows, in the order of rows and of the groups in a row. `global` is
/// the scale of the whole weight (nvfp4; else 1). Errors name the row, counted from `first_row`.
core::result<std::vector<kernels::group_scale>> scales_of(const compressed_matrix& m, std::span<const float> values,
                                                          uint64_t first_row, float global);

/// Encodes whole rows of values as integer or floating-point codes, packed as the format stores them.
void encode_rows(const compressed_matrix& m, std::span<const float> values,
                 std::span<const kernels::group_scale> scales, float global, std::span<std::byte> out);
/// Decodes stored rows of codes to values, each rounded to the scheme's type.
void decode_rows(const compressed_matrix& m, std::span<const std::byte> stored,
                 std::span<const kernels::group_scale> scales, float global, std::span<float> values);

/// Converts scales to their stored form, one after the other.
void encode_scales(const compressed_matrix& m, std::span<const kernels::group_scale> scales, std::span<std::byte> out);
/// Decodes stored scales. Returns an error that names row and group if a scale is not finite or not above 0.
core::result<void> decode_scales(const compressed_matrix& m, std::span<const std::byte> stored, uint64_t first_row,
                                 std::span<kernels::group_scale> scales);

/// A range of rows of a quantised matrix, and the range of rows of its tensor of zero points that stores their zero
/// points. The tensor packs zero points in 32-bit words along the rows: each of its rows has one word for every group
/// and holds the zero points of several rows of the matrix.
struct zero_rows {
  uint64_t first_word = 0, words = 0;  ///< first row, and number of rows, of the tensor of zero points
  uint64_t first_row = 0, rows = 0;    ///< first row, and number of rows, of the matrix
};
/// Returns the given rows of the matrix, and the rows of the tensor of zero points that hold their zero points.
zero_rows words_of_rows(const compressed_matrix& m, uint64_t first_row, uint64_t rows);
/// Returns the given rows of the tensor of zero points, and the rows of the matrix whose zero points these rows hold.
zero_rows rows_of_words(const compressed_matrix& m, uint64_t first_word, uint64_t words);
/// Packs the zero points of `which.rows` rows of the matrix into `which.words` rows of the tensor of zero points.
void encode_zeros(const compressed_matrix& m, const zero_rows& which, std::span<const kernels::group_scale> scales,
                  std::span<std::byte> out);
/// Unpacks zero points from `stored`, the rows of the tensor of zero points that `which` names, into `scales`, which
/// holds the scales of whole rows of the matrix from `first_row` on.
void decode_zeros(const compressed_matrix& m, const zero_rows& which, std::span<const std::byte> stored,
                  uint64_t first_row, std::span<kernels::group_scale> scales);

}  // namespace troupe::formats
