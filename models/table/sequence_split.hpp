// How a family's samples are split over a sequence group: which columns a rank has, and which heads it computes if
// heads are exchanged (DeepSpeed Ulysses, arXiv:2309.14509). Owns these numbers. No Torch here.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "core/sequence_columns.hpp"
#include "core/tp_plan.hpp"

namespace troupe::models {

struct model_spec;

/// How attention obtains the columns of a sample that other ranks have.
enum class sequence_way : uint8_t {
  heads,  ///< a rank computes some heads with all columns; heads are exchanged (DeepSpeed Ulysses, arXiv:2309.14509)
  keys,   ///< a rank computes all heads of its own queries; keys and values of all columns are gathered (context
          ///< parallelism)
};

struct sequence_split {  ///< split of a sample over ranks
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

/// The heads of attention distributed over the ranks of a group: key-value heads, with the query heads that share them.
/// If there are fewer key-value heads than ranks, each is repeated.
struct dealt_heads {
  uint32_t repeats = 1;     ///< number of times that each key-value head is repeated
  uint32_t group = 1;       ///< number of query heads for each repeated key-value head
  core::tp_widths kv = {};  ///< number of key-value heads of each rank, repeats counted
  uint32_t head_width = 1;

  [[nodiscard]] uint64_t widest() const { return core::widest_of(kv); }
  /// Returns the elements of a token in the input of a rank's attention, padding of the widest rank included;
  /// mixed_width() returns those of its output.
  [[nodiscard]] uint64_t packed_width() const { return widest() * (group + 2) * head_width; }
  [[nodiscard]] uint64_t mixed_width() const { return widest() * group * head_width; }
};

/// Returns the heads of a block's spec, which may be a tensor rank's share. `degree` is at most its query heads.
dealt_heads heads_of(const model_spec& block, const sequence_split& split);

/// Checks that samples can be split. Errors (bad_input): more ranks than columns, or, if heads are exchanged, than
/// query heads of a tensor rank.
core::result<void> check_sequence(const model_spec& local, uint64_t columns, const sequence_split& split);

}  // namespace troupe::models
