// Owns the sizes of an exchange between the ranks of a tensor or sequence group: what follows from a segment's exchange
// and from a job's options.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/math.hpp"
#include "plan/job_layout.hpp"
#include "plan/kinds.hpp"

namespace troupe::plan {

/// The exchange of a segment's output, or of the gradient of its input, as the ranks of a job run it.
struct group_exchange : core::segment_exchange {
  uint32_t ranks = 1;   ///< number of ranks that take part; 1: there is nothing to exchange
  uint32_t pieces = 1;  ///< number of pieces of rows into which it and the product before it are divided; 1: whole

  group_exchange(const plan_options& o, const core::segment_exchange& x) : core::segment_exchange(x) {
    if (op != core::exchange_op::none) ranks = is_of_tensor_group() ? o.mesh.tensor_ranks() : o.mesh.sequence_ranks();
    if (rows > 0 && ranks > 1 && o.mode != mode::generate)
      pieces = static_cast<uint32_t>(std::min<uint64_t>(o.exchange_pieces, rows));
  }
  /// Returns the bytes that every rank of the group has received or computed when the exchange is done.
  [[nodiscard]] uint64_t all_bytes() const { return bytes * (op == core::exchange_op::sum ? 1 : ranks); }
  /// Returns the rows of piece `piece`. If a micro-batch has fewer rows than the table, its pieces end with its
  /// tensor.
  [[nodiscard]] slice rows_of(uint32_t piece) const {
    const uint64_t first = rows * piece / pieces;
    return {first, rows * (piece + 1) / pieces - first};
  }
  /// Bytes that one piece moves; the pieces add up to all_bytes.
  [[nodiscard]] uint64_t bytes_of(uint32_t piece) const {
    return pieces == 1 ? all_bytes() : rows_of(piece).count * (bytes / rows);
  }
  /// Byte offset of a rank's own input in the exchange's slot; 0 if the exchange is in place.
  [[nodiscard]] uint64_t given_at() const {
    if (op == core::exchange_op::swap) return all_bytes();
    return op == core::exchange_op::scatter ? bytes : 0;
  }
  /// Bytes of the exchange's slot, which ends with a header like the slot of a transfer between stages.
  [[nodiscard]] uint64_t slot_bytes() const {
    return core::round_up(given_at() + all_bytes(), core::input_alignment) + transfer_header_bytes;
  }
};

/// Returns the exchange between tensor or sequence ranks that follows a segment: of its output (forward), or of the
/// gradient of its input (backward). The gradient of the input of the first trained unit is not exchanged, because no
/// backward reads it.
inline group_exchange exchange_of(const job_layout& l, uint32_t unit, uint32_t segment, use way) {
  const core::segment_info& s = l.table->units[unit].segments[segment];
  if (way == use::forward) return {l.options, s.output};
  const bool ends_backward = segment == 0 && unit == l.table->first_trained_unit();
  return {l.options, ends_backward ? core::segment_exchange() : s.input_gradient};
}

/// Returns the number of pieces of rows into which the output of the segment of `x` is divided; `x` computes or
/// exchanges one of the pieces. Returns 1 if the output is whole, for the exchange of a recompute, and for kinds
/// without pieces.
inline uint32_t output_pieces(const job_layout& l, const operation& x) {
  const kind_row& row = row_of(x.kind);
  const bool may_be_piece =
      row.work == unit_work::forward || (row.group == member_group::segment && x.repeats == repetition::none);
  return may_be_piece ? exchange_of(l, x.subject, x.segment, x.use).pieces : 1;
}

}  // namespace troupe::plan
