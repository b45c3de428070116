// A rank's share of a compressed matrix that is split over ranks: its groups are those of the whole matrix, so products
// have the bits of the unsplit model. Owns which elements of which group the rank has; leaves the quantisation of a
// group to fake_quantise.hpp, and the exchange of ranges between ranks to the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "kernels/compress/compressed_weight.hpp"

namespace troupe::kernels {

/// A run of a share's elements: elements [local, local + count) of the share are the elements of the matrix from
/// `whole` on. Both are counted in the order of matrix_share::in_order.
struct matrix_run {
  uint64_t local = 0, whole = 0, count = 0;
  bool operator==(const matrix_run&) const = default;
};

struct matrix_share {            ///< the elements of a compressed matrix that one rank of a tensor group has
  weight_recipe recipe;          ///< recipe of the share as it is in memory, with the matrix's `groups`
  uint64_t group_size = 0;       ///< number of elements of a group of the matrix
  bool in_order = false;         ///< true: runs count elements as (out, in), while memory stores them as (in, out)
  std::vector<matrix_run> runs;  ///< runs of all elements of the share, padding left out
  bool is_ternary = false;       ///< true if the groups are ternary, now or in a later step

  /// Returns the elements of scratch memory that compress_share needs besides the result.
  [[nodiscard]] uint64_t room_elements() const { return in_order ? recipe.elements() : 0; }
  /// True if some group has elements both on this rank and on another.
  [[nodiscard]] bool has_parts_of_groups() const;
  /// Returns how many entries a rank sends to the others: one for each group, and if groups are ternary one more for
  /// each, which is sent in the second exchange.
  [[nodiscard]] uint64_t told() const { return recipe.groups * (is_ternary ? 2 : 1); }
};

/// Sets out[g] to this rank's entry for each group g that it has a part of, told() entries: the least and the largest
/// element, or, if `grid` has no grid, the sum of |x| and the number of elements. For other groups, an empty range or
/// sum, which changes no result.
void share_ranges(const matrix_share& share, const quantiser& grid, core::dtype type, const std::byte* weight,
                  std::span<value_range<double>> out);
/// Sets the second half of `out` to the sum of |x| above the threshold of each ternary group, and the number of these
/// elements. `told` has the entries of every rank, one rank after another; the first half of `out` is this rank's part
/// of it. Does nothing if `grid` is not ternary now.
void share_sums_above(const matrix_share& share, const quantiser& grid, core::dtype type, const std::byte* weight,
                      std::span<const value_range<double>> told, std::span<value_range<double>> out);

/// Sets `out` to the share with each group on its grid; padding stays as it is. `told`: the entries of every rank;
/// empty if no rank has parts of groups.
void compress_share(const matrix_share& share, core::dtype type, const std::byte* weight,
                    std::span<const value_range<double>> told, std::byte* out, std::span<std::byte> room,
                    const weight_moment& now = {});

}  // namespace troupe::kernels
