// Packs samples of different lengths into rows of one length. Owns the rules, best fit by descending length and one
// sample a row, which depend on the lengths alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::data {

/// Rows of samples: row r has the samples order[begin[r]] to order[begin[r + 1] - 1], in the order of the source.
struct packed_rows {
  std::vector<uint32_t> order;
  std::vector<uint64_t> begin;
  [[nodiscard]] uint64_t rows() const { return begin.empty() ? 0 : begin.size() - 1; }
  [[nodiscard]] std::span<const uint32_t> row(uint64_t r) const {
    return std::span(order).subspan(begin[r], begin[r + 1] - begin[r]);
  }
};

/// Packs the samples `lengths`, each of 1 to `room` tokens, into rows of at most `room` tokens. The longest sample that
/// is left goes to the row with the least room that it fits in, or begins a row; of equal ones, the first. Rows are in
/// the order of their first samples. Source: Coffman, Garey, Johnson 1997, "Approximation algorithms for bin packing: a
/// survey", best fit decreasing.
packed_rows pack_rows(std::span<const uint32_t> lengths, uint64_t room);

/// Returns rows of one sample each, in the order of the source.
packed_rows single_rows(uint64_t samples);

}  // namespace troupe::data
