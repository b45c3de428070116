// Columns and heads on their way between ranks of a group: what a rank gives to each of the others, and what it makes
// of what it gets. Functions of a segment, each one pass forward and one backward; the exchange between them is the
// plan's.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/segment/segment_scope.hpp"
#include "models/table/sequence_split.hpp"

namespace troupe::models {

/// How a rank's columns and heads lie in the parts that are swapped. Parts are as large as the widest rank's: behind
/// a rank's own columns and heads they are zero.
struct sequence_parts {
  dealt_heads heads;
  sequence_split split;
  uint64_t columns = 0;  ///< of all ranks: T
  uint32_t own = 0;      ///< this rank

  [[nodiscard]] int64_t ranks() const { return split.degree; }
  [[nodiscard]] core::column_set columns_of(int64_t rank) const {
    return split.own_columns(columns, static_cast<uint32_t>(rank));
  }
  [[nodiscard]] int64_t most_columns() const { return static_cast<int64_t>(split.most_columns(columns)); }
};

/// Queries, keys and values of own columns (B, T', (heads + 2 kv_heads) * head_width) as a part for each rank
/// (ranks, B, widest T', packed_width): the heads that it works with.
at::Tensor give_heads(const segment_scope& scope, const at::Tensor& qkv, const sequence_parts& parts);

/// All columns (B, T, width), in their order, out of the parts (ranks, B, widest T', width) that all ranks gave.
at::Tensor take_columns(const segment_scope& scope, const at::Tensor& got, const sequence_parts& parts);

/// All columns (B, T, width) as a part for each rank (ranks, B, widest T', width): its columns.
at::Tensor give_columns(const segment_scope& scope, const at::Tensor& mixed, const sequence_parts& parts);

/// All heads of own columns (B, T', heads * head_width).
at::Tensor take_heads(const segment_scope& scope, const at::Tensor& got, const sequence_parts& parts);

/// Own columns (B, T', width) as the part that is gathered (B, widest T', width).
at::Tensor give_own(const segment_scope& scope, const at::Tensor& own, const sequence_parts& parts);

/// Own columns (B, T', width) out of such a part, or of a sum of such parts.
at::Tensor take_own(const segment_scope& scope, const at::Tensor& got, const sequence_parts& parts);

/// `whole`, which puts out all columns, giving a part to each rank as give_columns does.
std::unique_ptr<segment_run> giving_columns(std::unique_ptr<segment_run> whole, const sequence_parts& parts);

}  // namespace troupe::models
