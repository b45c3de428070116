// A rank's share of a compressed matrix that is cut over ranks: its groups are those of the whole matrix, so what it
// multiplies with has the bits of the uncut model. Owns which elements of which group lie here; what a quantiser does
// with a group is fake_quantise.hpp's, how ranks tell each other of ranges is the plan's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "kernels/compress/compressed_weight.hpp"

namespace troupe::kernels {

/// Elements [local, local + count) of the share are those from `whole` on of the matrix. Both are counted in the order
/// of matrix_share::in_order.
struct matrix_run {
  uint64_t local = 0, whole = 0, count = 0;
  bool operator==(const matrix_run&) const = default;
};

struct matrix_share {            ///< what one rank of a tensor group has of a compressed matrix
  weight_recipe recipe;          ///< of the share as it lies in memory, but for `groups`, which are the matrix's
  uint64_t group_size = 0;       ///< elements of a group of the matrix
  bool in_order = false;         ///< runs count elements as (out, in), which memory has as (in, out)
  std::vector<matrix_run> runs;  ///< all elements but padding
  bool is_ternary = false;       ///< its groups are, or come to be

  /// Elements of room beside the result.
  [[nodiscard]] uint64_t room_elements() const { return in_order ? recipe.elements() : 0; }
  /// Whether some group has elements both here and elsewhere.
  [[nodiscard]] bool has_parts_of_groups() const;
  /// What a rank tells the others: an entry for each group, and of ternary ones another, the second time.
  [[nodiscard]] uint64_t told() const { return recipe.groups * (is_ternary ? 2 : 1); }
};

/// out[g] = what a rank tells the others of each group g of which only a part lies here, told() entries: the least and
/// the largest element, or where `grid` is none the sum of |x| and how many they are. Of other groups an empty range or
/// sum, which changes nothing.
void share_ranges(const matrix_share& share, const quantiser& grid, core::dtype type, const std::byte* weight,
                  std::span<value_range<double>> out);
/// The second half of out = the sum of |x| above the threshold of a ternary group, and how many they are: the first
/// half is this rank's in `told`, which has the entries of every rank, one rank's behind the other's. Nothing else
/// where `grid` is not ternary now.
void share_sums_above(const matrix_share& share, const quantiser& grid, core::dtype type, const std::byte* weight,
                      std::span<const value_range<double>> told, std::span<value_range<double>> out);

/// `out` = the share, each group on its grid; padding stays as it is. `told`: entries of every rank; empty where no
/// rank has parts of groups.
void compress_share(const matrix_share& share, core::dtype type, const std::byte* weight,
                    std::span<const value_range<double>> told, std::byte* out, std::span<std::byte> room,
                    const weight_moment& now = {});

}  // namespace troupe::kernels
