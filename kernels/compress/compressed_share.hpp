// A rank's share of a compressed matrix that is split over ranks: its groups are the groups of the whole matrix, so
// products have the bits of the unsplit model. Owns which elements of which group the rank has; leaves the
// quantisation of a group to fake_quantise.hpp, and the exchange of ranges between ranks to the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "kernels/compress/compressed_weight.hpp"

namespace troupe::kernels {

/// A run of a rank's elements of a matrix: elements [local, local + count) of the rank's share are elements [whole,
/// whole + count) of the whole matrix. matrix_share::in_order says in which order both are counted.
struct matrix_run {
  uint64_t local = 0, whole = 0, count = 0;
  bool operator==(const matrix_run&) const = default;
};

struct matrix_share {  ///< the part of a compressed matrix that one tensor-parallel rank has
  /// Shape and quantiser of the share in memory; its `groups` is the number of groups of the whole matrix.
  weight_recipe recipe;
  uint64_t group_size = 0;  ///< number of elements of one group of the whole matrix
  bool in_order = false;  ///< true: `runs` count elements in the order (out, in), while memory stores them as (in, out)
  std::vector<matrix_run> runs;  ///< runs that contain all elements of the share except its padding
  bool is_ternary = false;       ///< true if the groups are quantised to ternary values, in this step or in a later one

  /// Returns how many elements of scratch memory compress_share() needs besides its result.
  [[nodiscard]] uint64_t room_elements() const { return in_order ? recipe.elements() : 0; }
  /// True if some group of the matrix has elements both on this rank and on other ranks, so that ranks must exchange
  /// its range.
  [[nodiscard]] bool has_parts_of_groups() const;
  /// Returns how many entries (value ranges or sums) this rank sends to the other ranks: one for each group of the
  /// matrix, and, if groups are ternary, a second one for each group, which is sent in a second exchange.
  [[nodiscard]] uint64_t told() const { return recipe.groups * (is_ternary ? 2 : 1); }
};

/// Computes what this rank sends in the first exchange; `out` has told() entries. For each group g of which this rank
/// has only a part, sets out[g] to the least and the largest of its elements, or, if `grid` has no grid (ternary,
/// binary), to the sum of |x| and the number of elements. For all other groups, out[g] is an empty range or sum, which
/// changes no result.
void share_ranges(const matrix_share& share, const quantiser& grid, core::dtype type, const std::byte* weight,
                  std::span<value_range<double>> out);
/// Computes what this rank sends in the second exchange, which ternary groups need. For each group of which this rank
/// has a part, sets an entry in the second half of `out` to the sum and the number of the rank's |x| above the
/// group's threshold. `told` has the entries of every rank from the first exchange, one rank after another; the first
/// half of `out` is this rank's part of `told`. Does nothing if `grid` is not ternary in this step.
void share_sums_above(const matrix_share& share, const quantiser& grid, core::dtype type, const std::byte* weight,
                      std::span<const value_range<double>> told, std::span<value_range<double>> out);

/// Sets `out` to this rank's share of the matrix with each group rounded to its grid; padding is copied. `told` has the
/// entries of every rank, one rank after another; it is empty if no group is spread over ranks. `room`: room_elements()
/// elements of scratch memory of the type.
void compress_share(const matrix_share& share, core::dtype type, const std::byte* weight,
                    std::span<const value_range<double>> told, std::byte* out, std::span<std::byte> room,
                    const weight_moment& now = {});

}  // namespace troupe::kernels
