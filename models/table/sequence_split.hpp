// How samples are divided over the ranks of a sequence group: which columns (tokens) a rank has, and which heads it
// computes if heads are exchanged (DeepSpeed Ulysses, arXiv:2309.14509). Owns these numbers. No Torch here.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "core/sequence_columns.hpp"
#include "core/tp_plan.hpp"

namespace troupe::models {

struct model_spec;

/// How attention, which needs all columns (tokens) of a sample, obtains those that other ranks of the sequence group
/// have.
enum class sequence_way : uint8_t {
  heads,  ///< ranks exchange heads: each computes some heads for all columns (DeepSpeed Ulysses, arXiv:2309.14509)
  keys,   ///< ranks gather all keys and values: each computes all heads for its own columns (context parallelism)
};

struct sequence_split {  ///< how the columns (tokens) of each sample are divided over ranks
  uint32_t degree = 1;   ///< number of ranks that share a sample; 1: samples are not split
  sequence_way way = sequence_way::heads;

  [[nodiscard]] core::column_order order() const {
    return way == sequence_way::heads ? core::column_order::neighbours : core::column_order::two_ended;
  }
  [[nodiscard]] uint64_t most_columns(uint64_t all) const { return core::most_columns(all, degree, order()); }
  [[nodiscard]] core::column_set own_columns(uint64_t all, uint32_t coordinate) const {
    return core::columns_of(all, degree, coordinate, order());
  }
};

/// How attention heads are distributed over the ranks of a sequence group that exchanges heads: key-value heads, each
/// with the query heads that share it. If there are fewer key-value heads than ranks, each is repeated on several
/// ranks.
struct dealt_heads {
  uint32_t repeats = 1;     ///< number of times that each key-value head is repeated
  uint32_t group = 1;       ///< number of query heads that use one (repeated) key-value head
  core::tp_widths kv = {};  ///< [rank]: number of key-value heads, repeats counted
  uint32_t head_width = 1;

  [[nodiscard]] uint64_t widest() const { return core::widest_of(kv); }
  /// packed_width() returns the elements per token (queries, keys, values) of the largest part that a rank gets for its
  /// heads, to which all parts are padded; mixed_width() those of a part of attention's output.
  [[nodiscard]] uint64_t packed_width() const { return widest() * (group + 2) * head_width; }
  [[nodiscard]] uint64_t mixed_width() const { return widest() * group * head_width; }
};

/// Returns how the heads of a block are distributed; `block` may be a tensor-parallel rank's part. The degree must be
/// at most its number of query heads.
dealt_heads heads_of(const model_spec& block, const sequence_split& split);

/// Checks that samples of `columns` tokens can be divided over a sequence group. Errors (bad_input): more ranks than
/// columns; if heads are exchanged, more ranks than the query heads of a tensor-parallel rank.
core::result<void> check_sequence(const model_spec& local, uint64_t columns, const sequence_split& split);

}  // namespace troupe::models
