// Maps the elements of one parameter to the slices of tensor-parallel ranks and back. Owns the arithmetic; leaves to
// rules.hpp which parameter is cut in which way.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::formats {

/// Largest number of ranks over which one parameter may be cut.
inline constexpr uint32_t max_tensor_ranks = 4096;
/// Largest number of runs of consecutive elements that one cut may have.
inline constexpr uint64_t max_cut_runs = 4'000'000;
/// Largest number of parts of one parameter that are cut separately.
inline constexpr size_t max_sub_parameters = 4096;

/// How a parameter is distributed over tensor-parallel ranks.
enum class cut_kind : uint8_t {
  replicated,  ///< every rank has the whole parameter; readers use the first rank's copy
  averaged,    ///< every rank has its own version of the parameter; the joined parameter is their mean
  along        ///< each rank has a slice of the parameter along one dimension
};

/// How a dimension is split whose size is not divisible by the number of ranks.
enum class uneven_split : uint8_t {
  refused,       ///< such a size is an error, as in Megatron: all slices must be equally wide
  one_more_each  ///< the first (size mod ranks) ranks have one element more (DeepSpeed's AutoTP)
};

/// A kind of cut and its parameters.
struct cut_rule {
  cut_kind kind = cut_kind::replicated;
  size_t dimension = 0;
  /// Number of equal parts that are stacked along `dimension` and cut separately: 3 for queries, keys and values one
  /// after the other, 2 for a fused SwiGLU. Unused if `widths` is given.
  uint32_t sub_parameters = 1;
  std::vector<int64_t> part_sizes = {};  ///< sizes of unequal parts along `dimension`, each cut separately
  /// Width of each part's slice on each rank along `dimension`, [part][rank]; empty if the writer does not state them.
  std::vector<std::vector<int64_t>> widths = {};
  /// Shape to which the parameter is reshaped before it is cut; empty: its own shape. The entry at `dimension` is not
  /// read; one other entry may be -1, which is computed from the number of elements.
  std::vector<int64_t> view = {};
  /// Number of rows of a vocabulary matrix without the padding rows after them; 0: the parameter is not a vocabulary.
  int64_t original_rows = 0;
  uneven_split uneven = uneven_split::refused;
  bool operator==(const cut_rule&) const = default;
};

/// A run of elements of a cut: elements [slice_first, slice_first + count) of rank `rank`'s slice are elements
/// [whole_first, whole_first + count) of the whole tensor.
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
  /// The runs, ascending by whole_first if `kind` is `along`, else by rank. Elements of a slice outside all runs are
  /// padding.
  std::vector<cut_run> runs;
};

/// Returns the width of each rank's slice if `size` elements are split over `ranks`. `how` determines the widths, or an
/// error, if `ranks` does not divide `size`.
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

}  // namespace troupe::formats
