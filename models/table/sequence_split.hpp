// How a family's samples are cut over a sequence group: which columns a rank has, and which heads in attention, where
// it has all columns (DeepSpeed Ulysses, arXiv:2309.14509). Owns these numbers. No Torch here.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "core/sequence_columns.hpp"
#include "core/tp_plan.hpp"

namespace troupe::models {

struct model_spec;

/// How attention gets what other ranks have.
enum class sequence_way : uint8_t {
  heads,  ///< it has all columns of some heads, which are swapped (DeepSpeed Ulysses, arXiv:2309.14509)
  keys,   ///< it has all heads of own queries, and keys and values of all columns are gathered (context parallelism)
};

struct sequence_split {  ///< of the ranks that have a sample together
  uint32_t degree = 1;   ///< 1: nothing is cut
  sequence_way way = sequence_way::heads;

  [[nodiscard]] core::column_order order() const {
    return way == sequence_way::heads ? core::column_order::neighbours : core::column_order::two_ended;
  }
  [[nodiscard]] uint64_t most_columns(uint64_t all) const { return core::most_columns(all, degree, order()); }
  [[nodiscard]] core::column_set own_columns(uint64_t all, uint32_t coordinate) const {
    return core::columns_of(all, degree, coordinate, order());
  }
};

/// The heads of attention dealt to the ranks of a group: key-value heads, with the query heads that share them. Where
/// there are fewer of them than ranks, each is there several times.
struct dealt_heads {
  uint32_t repeats = 1;     ///< of a key-value head
  uint32_t group = 1;       ///< query heads to each of those
  core::tp_widths kv = {};  ///< of each rank, repeats counted
  uint32_t head_width = 1;

  [[nodiscard]] uint64_t widest() const { return core::widest_of(kv); }
  /// Elements of a token in what a rank's attention takes and gives, padding of the widest rank included.
  [[nodiscard]] uint64_t packed_width() const { return widest() * (group + 2) * head_width; }
  [[nodiscard]] uint64_t mixed_width() const { return widest() * group * head_width; }
};

/// Of a block's spec, which may be a tensor rank's share. `degree` is at most its query heads.
dealt_heads heads_of(const model_spec& block, const sequence_split& split);

/// Refused (bad_input): more ranks than columns, or, where heads are swapped, than query heads of a tensor rank.
core::result<void> check_sequence(const model_spec& local, uint64_t columns, const sequence_split& split);

}  // namespace troupe::models
