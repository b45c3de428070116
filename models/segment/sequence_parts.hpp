// Converts between a rank's tensors and the parts that ranks of a group exchange (columns are token positions): the
// parts that a rank sends to each other rank, and the tensor that it makes of the parts that it receives. The functions
// are used inside segments, forward and backward; the plan exchanges the parts between segments.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/segment/segment_scope.hpp"
#include "models/table/sequence_split.hpp"

namespace troupe::models {

/// Layout of the columns and heads in the parts that ranks exchange. All parts are as large as those of the rank with
/// most columns and heads; the unused end of a part is zero.
struct sequence_parts {
  dealt_heads heads;
  sequence_split split;
  uint64_t columns = 0;  ///< number T of columns of a sample, those of all ranks together
  uint32_t own = 0;      ///< index of this rank in the group

  [[nodiscard]] int64_t ranks() const { return split.degree; }
  [[nodiscard]] core::column_set columns_of(int64_t rank) const {
    return split.own_columns(columns, static_cast<uint32_t>(rank));
  }
  [[nodiscard]] int64_t most_columns() const { return static_cast<int64_t>(split.most_columns(columns)); }
};

/// Returns a part for each rank (ranks, B, most columns, packed_width), made of the queries, keys and values `qkv` of
/// this rank's T' columns (B, T', (heads + 2 kv_heads) * head_width): the heads that the receiving rank computes.
at::Tensor give_heads(const segment_scope& scope, const at::Tensor& qkv, const sequence_parts& parts);

/// Returns a tensor of all columns (B, T, width), in order, from the parts (ranks, B, most columns, width) that all
/// ranks have sent.
at::Tensor take_columns(const segment_scope& scope, const at::Tensor& got, const sequence_parts& parts);

/// Returns a part for each rank (ranks, B, most columns, width), made of a tensor of all columns (B, T, width): the
/// receiving rank's columns.
at::Tensor give_columns(const segment_scope& scope, const at::Tensor& mixed, const sequence_parts& parts);

/// Returns all heads of this rank's T' columns (B, T', heads * head_width), from the parts that all ranks have sent.
at::Tensor take_heads(const segment_scope& scope, const at::Tensor& got, const sequence_parts& parts);

/// Returns this rank's columns (B, T', width), padded to the part (B, most columns, width) that is gathered from all
/// ranks.
at::Tensor give_own(const segment_scope& scope, const at::Tensor& own, const sequence_parts& parts);

/// Returns this rank's columns (B, T', width) from a padded part that give_own made, or from a sum of such parts.
at::Tensor take_own(const segment_scope& scope, const at::Tensor& got, const sequence_parts& parts);

/// Returns a segment that runs `whole`, whose output has all columns, and returns a part of that output for each rank,
/// as give_columns() does.
std::unique_ptr<segment_run> giving_columns(std::unique_ptr<segment_run> whole, const sequence_parts& parts);

}  // namespace troupe::models
