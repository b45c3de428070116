// The tensors that one compressed weight is made of: names, types, shapes, and rows of them from rows of values and
// back. Owns the layout of a weight; where bytes come from and go to is the reader's and the writer's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/compressed/scheme.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// What a tensor of a compressed weight holds.
enum class weight_part : uint8_t { codes, scales, zeros, shape, global_scale };

/// One of them: `suffix` stands in the place of `weight` behind the module's name.
struct part_tensor {
  weight_part part = weight_part::codes;
  std::string_view suffix;
  core::dtype type = core::dtype::i32;
  std::vector<int64_t> shape;
  bool is_e4m3 = false;
};

/// A matrix (out x in) under a scheme.
struct compressed_matrix {
  uint64_t rows = 0, columns = 0;
  weight_scheme scheme;

  [[nodiscard]] uint64_t group() const { return scheme.group_size > 0 ? scheme.group_size : columns; }
  [[nodiscard]] uint64_t groups_of_row() const { return columns / group(); }
  /// Bytes of a row's codes.
  [[nodiscard]] uint64_t code_row_bytes() const;
  [[nodiscard]] core::dtype scale_type() const;
};
/// Refused: no elements, groups that do not divide a row (with those that would), an odd width of 4-bit numbers.
core::result<void> check(const compressed_matrix& m);

/// Its tensors, as the format names them.
std::vector<part_tensor> parts_of(const compressed_matrix& m);

/// The scales of `values`, whole rows, one row's groups after the other. Errors name the row, counted from `first_row`.
core::result<std::vector<kernels::group_scale>> scales_of(const compressed_matrix& m, std::span<const float> values,
                                                          uint64_t first_row, float global);

/// Rows of codes as they are stored.
void encode_rows(const compressed_matrix& m, std::span<const float> values,
                 std::span<const kernels::group_scale> scales, float global, std::span<std::byte> out);
/// Back to values, each rounded to the scheme's type.
void decode_rows(const compressed_matrix& m, std::span<const std::byte> stored,
                 std::span<const kernels::group_scale> scales, float global, std::span<float> values);

/// Scales as they are stored, one after the other; and back.
void encode_scales(const compressed_matrix& m, std::span<const kernels::group_scale> scales, std::span<std::byte> out);
/// Refused: a scale that is no finite number above 0. The error names row and group.
core::result<void> decode_scales(const compressed_matrix& m, std::span<const std::byte> stored, uint64_t first_row,
                                 std::span<kernels::group_scale> scales);

/// Zero points are packed along the rows: a row of words holds the codes of a few rows, a word for each group.
struct zero_rows {
  uint64_t first_word = 0, words = 0;  ///< rows of words that hold those of some rows, or begin in them
  uint64_t first_row = 0, rows = 0;    ///< rows of codes that those rows of words touch
};
zero_rows words_of_rows(const compressed_matrix& m, uint64_t first_row, uint64_t rows);
zero_rows rows_of_words(const compressed_matrix& m, uint64_t first_word, uint64_t words);
/// The words of `which.words` rows from the zero points of `which.rows` rows.
void encode_zeros(const compressed_matrix& m, const zero_rows& which, std::span<const kernels::group_scale> scales,
                  std::span<std::byte> out);
/// The zero points of rows [first_row, first_row + rows) from the words that `which` names.
void decode_zeros(const compressed_matrix& m, const zero_rows& which, std::span<const std::byte> stored,
                  uint64_t first_row, std::span<kernels::group_scale> scales);

}  // namespace troupe::checkpoint
