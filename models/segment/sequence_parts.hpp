// Columns and heads that ranks of a group exchange: the parts that a rank sends to each of the others, and the tensor
// that it makes from the parts that it receives. Functions of a segment, each one pass forward and one backward; leaves
// the exchange between them to the plan.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/segment/segment_scope.hpp"
#include "models/table/sequence_split.hpp"

namespace troupe::models {

/// Layout of a rank's columns and heads in the parts that are exchanged. Parts are as large as the widest rank's: after
/// a rank's own columns and heads they are zero.
struct sequence_parts {
  dealt_heads heads;
  sequence_split split;
  uint64_t columns = 0;  ///< number of columns of all ranks: T
  uint32_t own = 0;      ///< number of this rank in the sequence group

  [[nodiscard]] int64_t ranks() const { return split.degree; }
  [[nodiscard]] core::column_set columns_of(int64_t rank) const {
    return split.own_columns(columns, static_cast<uint32_t>(rank));
  }
  [[nodiscard]] int64_t most_columns() const { return static_cast<int64_t>(split.most_columns(columns)); }
};

/// Returns queries, keys and values of own columns (B, T', (heads + 2 kv_heads) * head_width) as a part for each rank
/// (ranks, B, widest T', packed_width): the heads that the rank computes.
at::Tensor give_heads(const segment_scope& scope, const at::Tensor& qkv, const sequence_parts& parts);

/// Returns a tensor of all columns (B, T, width) in their order, from the parts (ranks, B, widest T', width) that the
/// ranks have sent.
at::Tensor take_columns(const segment_scope& scope, const at::Tensor& got, const sequence_parts& parts);

/// Returns all columns (B, T, width) as a part for each rank (ranks, B, widest T', width): the rank's columns.
at::Tensor give_columns(const segment_scope& scope, const at::Tensor& mixed, const sequence_parts& parts);

/// Returns all heads of own columns (B, T', heads * head_width), from the parts that all ranks sent.
at::Tensor take_heads(const segment_scope& scope, const at::Tensor& got, const sequence_parts& parts);

/// Returns own columns (B, T', width) as the part that is gathered (B, widest T', width).
at::Tensor give_own(const segment_scope& scope, const at::Tensor& own, const sequence_parts& parts);

/// Returns own columns (B, T', width) from a part that give_own made, or from a sum of such parts.
at::Tensor take_own(const segment_scope& scope, const at::Tensor& got, const sequence_parts& parts);

/// Returns a segment that computes `whole`, whose output is all columns, and sends each rank its part, as give_columns
/// does.
std::unique_ptr<segment_run> giving_columns(std::unique_ptr<segment_run> whole, const sequence_parts& parts);

}  // namespace troupe::models
