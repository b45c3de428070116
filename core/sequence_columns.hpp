// Computes which columns (token positions) of a sample each rank of a sequence group holds. Owns the two ways of
// distributing columns; no Torch, no plan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/tp_plan.hpp"

namespace troupe::core {

/// Token positions [first, first + count) of a sample.
struct column_run {
  int64_t first = 0, count = 0;
  bool operator==(const column_run&) const = default;
};

/// How the columns (token positions) of a sample are distributed over the ranks of a sequence group.
enum class column_order : uint8_t {
  neighbours,  ///< each rank has neighbouring columns of the sequence
  /// Each rank has two runs, one from the front and one, mirrored, from the back of the sequence, so that causal
  /// attention costs every rank the same.
  two_ended,
};

/// The columns of one rank, in ascending order.
struct column_set {
  std::vector<column_run> runs = {};  ///< runs of columns of one rank: at least one, which may be empty

  [[nodiscard]] int64_t count() const {
    int64_t n = 0;
    for (const column_run& r : runs) n += r.count;
    return n;
  }
  [[nodiscard]] int64_t end() const { return runs.back().first + runs.back().count; }
  bool operator==(const column_set&) const = default;
};

/// Returns the columns of rank `coordinate` out of `degree`, for samples of `all` columns; the ranks' numbers of
/// columns are as equal as possible.
inline column_set columns_of(uint64_t all, uint32_t degree, uint32_t coordinate, column_order order) {
  const uint32_t pieces = order == column_order::neighbours ? degree : 2 * degree;
  const tp_widths dealt_to = dealt(all, pieces);
  const auto run_of = [&](uint32_t piece) {
    uint64_t first = 0;
    for (uint32_t p = 0; p < piece; ++p) first += dealt_to[p];
    return column_run{static_cast<int64_t>(first), static_cast<int64_t>(dealt_to[piece])};
  };
  column_set out{{run_of(coordinate)}};
  if (order == column_order::neighbours) return out;
  const column_run back = run_of(pieces - 1 - coordinate);
  if (back.count == 0) return out;
  if (out.end() == back.first)
    out.runs.back().count += back.count;
  else
    out.runs.push_back(back);
  return out;
}

/// Returns the largest number of columns that one of `degree` ranks holds of samples of `all` columns.
inline uint64_t most_columns(uint64_t all, uint32_t degree, column_order order) {
  int64_t most = 0;
  for (uint32_t r = 0; r < degree; ++r) most = std::max(most, columns_of(all, degree, r, order).count());
  return static_cast<uint64_t>(most);
}

}  // namespace troupe::core
