// Weights as 8-bit integers by groups, as in DeepSpeed's Megatron loader. Owns the arithmetic and the table of scales;
// leaves the choice of weights to state_dict_factory.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::formats {

/// Number of bits, and number of groups per matrix, of quantised weights.
struct quantise_options {
  uint32_t bits = 8;     ///< bits of an integer, 2 to 8
  uint32_t groups = 64;  ///< number of groups of one matrix, whatever its size
  bool mlp_extra_grouping = true;
};

/// A weight quantised to integers, and the scale of each of its groups.
struct quantised_values {
  std::vector<int8_t> values;
  std::vector<float> scales;  ///< scale of each group: a value times its group's scale is about the weight
};

/// Quantises groups of consecutive elements: s = 2^bits / (2 max|x| + 1e-5), q = x * s rounded to even and clamped to
/// `bits` bits; the stored scale is 1 / s. Refused: bits out of range, groups that do not divide the elements, an
/// infinity or a NaN.
core::result<quantised_values> quantise(std::span<const float> weight, uint32_t bits, uint32_t groups);

/// True if a weight is taken for a matrix of an MLP, which is then quantised with twice as many groups. Decides as
/// DeepSpeed does: `rows` or `columns`, times `ranks` (tensor-parallel ranks to load for) times `files` (files that are
/// joined for a rank), is four times the other number. `rows` x `columns` is the shape in one file.
bool looks_like_mlp(int64_t rows, int64_t columns, uint32_t ranks, uint32_t files);

/// The four matrices of one layer, in the order of their rows in a scale_table.
enum class layer_matrix : uint8_t { query_key_value, dense, h_to_4h, four_h_to_h };
/// Returns which of the four matrices the name denotes; nothing for any other parameter.
std::optional<layer_matrix> layer_matrix_of(std::string_view name);

/// Scales of the quantised matrices, as a row-major table [layers, 4, width]; shorter rows are filled with zeros.
struct scale_table {
  size_t layers = 0, width = 0;
  std::vector<float> values;
};

/// Makes the table; `rows[m][l]` has the scales of matrix m of layer l. The table has only the layers for which all
/// four matrices have scales; the scales of further layers are left out.
scale_table scale_table_of(const std::vector<std::vector<float>> (&rows)[4]);

}  // namespace troupe::formats
