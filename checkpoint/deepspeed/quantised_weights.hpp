// Weights as 8-bit integers by groups, as DeepSpeed's Megatron loader makes them. Owns the arithmetic and the table of
// scales; which weights are quantised is state_dict_factory.hpp's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// Which weights become 8-bit integers, and in how many groups.
struct quantise_options {
  uint32_t bits = 8;     ///< 2 to 8
  uint32_t groups = 64;  ///< of one matrix, whatever its size
  bool mlp_extra_grouping = true;
};

/// A weight as integers, and the scale of each group.
struct quantised_values {
  std::vector<int8_t> values;
  std::vector<float> scales;  ///< of each group: a value times its group's scale is about the weight
};

/// Groups of consecutive elements: s = 2^bits / (2 max|x| + 1e-5), q = x * s rounded to even and clamped to `bits`
/// bits; what is kept is 1 / s. Refused: bits out of range, groups that do not divide the elements.
core::result<quantised_values> quantise(std::span<const float> weight, uint32_t bits, uint32_t groups);

/// Whether a matrix of which one of `files` files has (rows, columns), for `ranks` ranks, is four times as long one way
/// as the other: then it has twice the groups.
bool looks_like_mlp(int64_t rows, int64_t columns, uint32_t ranks, uint32_t files);

/// One layer's four matrices, in the order of the table's rows.
enum class layer_matrix : uint8_t { query_key_value, dense, h_to_4h, four_h_to_h };
/// By name: which of the four; nothing for any other parameter.
std::optional<layer_matrix> layer_matrix_of(std::string_view name);

/// [layers, 4, width], row by row; shorter rows are filled with zeros.
struct scale_table {
  size_t layers = 0, width = 0;
  std::vector<float> values;
};

/// `rows[m]` has matrix m's scales, layer after layer. Layers that lack one of the four are left out, as from the end.
scale_table scale_table_of(const std::vector<std::vector<float>> (&rows)[4]);

}  // namespace troupe::checkpoint
