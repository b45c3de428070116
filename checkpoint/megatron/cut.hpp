// Maps the elements of one parameter to the slices of tensor-parallel ranks and back. Owns the arithmetic; rules.hpp
// says which parameter is cut in which way.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// Ranks that one parameter is cut over.
inline constexpr uint32_t max_tensor_ranks = 4096;
/// Runs of elements that one cut may have.
inline constexpr uint64_t max_cut_runs = 4'000'000;
/// Parts of one parameter that are cut separately.
inline constexpr size_t max_sub_parameters = 4096;

/// How a parameter lies over tensor-parallel ranks.
enum class cut_kind : uint8_t {
  replicated,  ///< every rank has all of it; the first one's counts
  averaged,    ///< every rank has its own version; the whole is their mean
  along        ///< cut along a dimension
};

/// What to do with a dimension that the number of ranks does not divide.
enum class uneven_split : uint8_t {
  refused,          ///< Megatron: every rank the same number
  one_more_each,    ///< AutoTP: the first (size mod ranks) ranks have one more
  rounded_up_first  ///< torch.chunk: ceil(size / ranks), the last ones less or nothing
};

/// A kind of cut with what it needs to know.
struct cut_rule {
  cut_kind kind = cut_kind::replicated;
  size_t dimension = 0;
  /// So many equal parts are stacked along `dimension` and each is cut separately: 3 for queries, keys and values one
  /// after the other, 2 for a fused SwiGLU. Not used with `widths`.
  uint32_t sub_parameters = 1;
  std::vector<int64_t> part_sizes = {};  ///< of parts that are not equal, along `dimension`, each cut for itself
  std::vector<std::vector<int64_t>> widths = {};  ///< [part][rank] along `dimension`, where the writer says them
  std::vector<int64_t> view = {};  ///< the shape to cut in, where it is not the parameter's; `dimension`'s entry is not
                                   ///< read, one other may be -1
  int64_t original_rows = 0;  ///< a vocabulary: the whole has so many rows, what follows is padding; 0: no vocabulary
  uneven_split uneven = uneven_split::refused;
  bool operator==(const cut_rule&) const = default;
};

/// Elements [slice_first, slice_first + count) of rank `rank` are those from `whole_first` on of the whole.
struct cut_run {
  uint32_t rank = 0;
  uint64_t slice_first = 0, whole_first = 0, count = 0;
  bool operator==(const cut_run&) const = default;
};

/// One rank's part of a tensor.
struct tensor_cut {
  cut_kind kind = cut_kind::replicated;
  std::vector<int64_t> whole;
  std::vector<std::vector<int64_t>> slices;
  std::vector<cut_run> runs;  ///< by whole_first (along), by rank else; elements of slices in none are padding
};

/// `size` elements over `ranks`. Refused as `how` says.
core::result<std::vector<int64_t>> split_widths(int64_t size, uint32_t ranks, uneven_split how);

/// From the slices' shapes. Refused, with `name`: shapes that differ beyond the rule, parts that do not divide.
core::result<tensor_cut> cut_to_merge(std::string_view name, const cut_rule& rule,
                                      std::span<const std::vector<int64_t>> slices);

/// From the whole's shape. A vocabulary is padded with zero rows to a multiple of `ranks`.
core::result<tensor_cut> cut_to_split(std::string_view name, const cut_rule& rule, const std::vector<int64_t>& whole,
                                      uint32_t ranks);

/// The order of rows in a query_key_value of `heads` heads of `head_size` rows each: version 0 is (3, heads, size), 1.0
/// is (heads, size, 3), 2.0 is (heads, 3, size).
enum class qkv_version : uint8_t { v0, v1, v2 };

/// Which row of `from` each row of `to` is: of a weight's or a bias's first dimension, 3 * heads * head_size long.
std::vector<uint32_t> qkv_rows(qkv_version from, qkv_version to, uint32_t heads, uint32_t head_size);

}  // namespace troupe::checkpoint
