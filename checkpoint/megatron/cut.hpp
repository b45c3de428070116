// Maps the elements of one parameter to the slices of tensor-parallel ranks and back. Owns the arithmetic; leaves to
// rules.hpp which parameter is cut in which way.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// Most ranks that one parameter may be cut over.
inline constexpr uint32_t max_tensor_ranks = 4096;
/// Most runs of consecutive elements that one cut may have.
inline constexpr uint64_t max_cut_runs = 4'000'000;
/// Most parts of one parameter that are cut separately.
inline constexpr size_t max_sub_parameters = 4096;

/// How a parameter is distributed over tensor-parallel ranks.
enum class cut_kind : uint8_t {
  replicated,  ///< every rank has all of it; readers take the first rank's
  averaged,    ///< every rank has its own version; the whole is their mean
  along        ///< each rank has a slice along a dimension
};

/// How a dimension is split that the number of ranks does not divide.
enum class uneven_split : uint8_t {
  refused,          ///< Megatron: an error; every rank must have the same number
  one_more_each,    ///< AutoTP: the first (size mod ranks) ranks have one element more
  rounded_up_first  ///< torch.chunk: ceil(size / ranks) for the first ranks, less or nothing for the last
};

/// A kind of cut and its parameters.
struct cut_rule {
  cut_kind kind = cut_kind::replicated;
  size_t dimension = 0;
  /// Number of equal parts that are stacked along `dimension` and cut separately: 3 for queries, keys and values one
  /// after the other, 2 for a fused SwiGLU. Unused if `widths` is given.
  uint32_t sub_parameters = 1;
  std::vector<int64_t> part_sizes = {};  ///< sizes of unequal parts along `dimension`, each cut separately
  /// [part][rank] along `dimension`, if the checkpoint's writer states them.
  std::vector<std::vector<int64_t>> widths = {};
  /// Shape in which the parameter is cut, if it is not its own: the entry of `dimension` is not read, one other may be
  /// -1.
  std::vector<int64_t> view = {};
  /// Rows of a vocabulary without padding, which follows them; 0: the parameter is not a vocabulary.
  int64_t original_rows = 0;
  uneven_split uneven = uneven_split::refused;
  bool operator==(const cut_rule&) const = default;
};

/// A run of elements of a cut: elements [slice_first, slice_first + count) of rank `rank`'s slice are elements
/// [whole_first, whole_first + count) of the whole.
struct cut_run {
  uint32_t rank = 0;
  uint64_t slice_first = 0, whole_first = 0, count = 0;
  bool operator==(const cut_run&) const = default;
};

/// The cut of one tensor into the slices of all ranks.
struct tensor_cut {
  cut_kind kind = cut_kind::replicated;
  std::vector<int64_t> whole;
  std::vector<std::vector<int64_t>> slices;
  /// Ascending by whole_first (along), else by rank; elements of a slice outside all runs are padding.
  std::vector<cut_run> runs;
};

/// Returns the width of each rank's slice if `size` elements are split over `ranks`. `how` decides which remainders are
/// refused.
core::result<std::vector<int64_t>> split_widths(int64_t size, uint32_t ranks, uneven_split how);

/// Returns the cut whose slices have the shapes `slices`. Refused, with `name`: shapes that differ more than the rule
/// allows, parts that do not divide.
core::result<tensor_cut> cut_to_merge(std::string_view name, const cut_rule& rule,
                                      std::span<const std::vector<int64_t>> slices);

/// Returns the cut of a tensor of shape `whole` over `ranks` ranks. A vocabulary is padded with zero rows to a multiple
/// of `ranks`.
core::result<tensor_cut> cut_to_split(std::string_view name, const cut_rule& rule, const std::vector<int64_t>& whole,
                                      uint32_t ranks);

/// Order of the rows in a query_key_value of `heads` heads of `head_size` rows each: version 0 is (3, heads, size), 1.0
/// is (heads, size, 3), 2.0 is (heads, 3, size).
enum class qkv_version : uint8_t { v0, v1, v2 };

/// Returns for each row in the order `to` the number of the same row in the order `from`. Rows are those of a weight's
/// or a bias's first dimension, 3 * heads * head_size in all.
std::vector<uint32_t> qkv_rows(qkv_version from, qkv_version to, uint32_t heads, uint32_t head_size);

}  // namespace troupe::checkpoint
