// Owns the elements that each collective of a step moves: owner, source offset, destination offset. Pure functions of
// the layout that all ranks share, so that every rank, the fabric and the checker see equal lists.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/instruction.hpp"
#include "plan/job_layout.hpp"
#include "plan/layout/rank_slices.hpp"

namespace troupe::plan {

/// A run of elements that a collective moves; equal to the fabric's `piece`, field for field.
struct moved_piece {
  uint32_t owner = 0;
  uint64_t from = 0, to = 0, count = 0;
  bool operator==(const moved_piece&) const = default;
};

class collective_pieces {
 public:
  /// Computes the offsets of every rank's slices. Keeps a reference to `l`, which must outlive this object.
  explicit collective_pieces(const job_layout& l);

  /// Returns the pieces of a gather: from the owner's slice layout (or its window) to the set's layout.
  [[nodiscard]] std::vector<moved_piece> gather(uint32_t set) const;
  /// Returns the pieces of a gather from the second copy of parameters (hpZ): from the ranks' parts of the copy to the
  /// set's layout.
  [[nodiscard]] std::vector<moved_piece> gather_near(uint32_t set) const;
  /// Returns the pieces of a reduction: from the offset of a gradient in its bucket to the offset of the sum
  /// (gradient_place). Every copy of the states has an owner of each element; the pieces of these owners follow each
  /// other.
  [[nodiscard]] std::vector<moved_piece> reduce(uint32_t bucket) const;
  /// Returns the pieces that the all-gather of publish set `set` moves, with offsets in the full layout.
  [[nodiscard]] std::vector<moved_piece> publish(uint32_t set) const;
  /// Returns the pieces that `measure` moves, with offsets among the doubles of measured_elements
  /// (plan/vote_layout.hpp).
  [[nodiscard]] std::vector<moved_piece> measure() const;
  /// Returns the pieces of `collect`: the update directions of every owner's slices, within the slot of the matrix set.
  [[nodiscard]] std::vector<moved_piece> collect(uint32_t set) const;
  /// Returns the pieces of `spread`: all shares of the orthogonal matrices, from the ranks that orthogonalised them,
  /// within the slot of the matrix set.
  [[nodiscard]] std::vector<moved_piece> spread(uint32_t set) const;
  /// Returns the pieces of `tie`, the exchange of a tied parameter's gradients between the two pipeline ranks of column
  /// `column` (the ranks that differ only in their pipeline coordinate): from the start of the elements of a use's
  /// reduced gradient that one rank holds, to that use's offset in the other rank's slot.
  [[nodiscard]] std::vector<moved_piece> tie(uint32_t exchange, uint32_t column) const;
  /// Returns the pieces of the vote: within the vote's doubles, each square sum and each loss from one rank.
  [[nodiscard]] std::vector<moved_piece> vote() const;

  /// Returns the pieces of a send or a receive: the bytes of the slot, from the rank that filled it.
  [[nodiscard]] std::vector<moved_piece> transfer(const instruction& x) const;

  /// Returns the pieces of an exchange. If it adds: the summands and their sums in the slot, each rank adding a run of
  /// elements of the parameters' dtype. Else: each rank's part, in bytes.
  [[nodiscard]] std::vector<moved_piece> exchange(const instruction& x) const;

  /// Returns the pieces of `agree`, the all-gather of the value ranges of a unit's compressed groups: each rank's part
  /// of the slot, in bytes.
  [[nodiscard]] std::vector<moved_piece> agree(uint32_t unit) const;

  /// Returns the pieces that a collective instruction moves; empty for other kinds of instructions.
  [[nodiscard]] std::vector<moved_piece> of(const instruction& x) const;

  /// Returns the offsets of the slices and states of `rank`.
  [[nodiscard]] const rank_offsets& offsets(uint32_t rank) const { return offsets_[rank]; }
  /// Returns the slices of parameters that `rank` owns.
  [[nodiscard]] const rank_slices& slices(uint32_t rank) const { return slices_[rank]; }

 private:
  /// Returns one piece for each slice of the set's parameters in the first copy of the states.
  template <class From, class To>
  [[nodiscard]] std::vector<moved_piece> slices_of(const parameter_set& set, From from, To to) const;

  const job_layout& l_;
  std::vector<rank_offsets> offsets_;  // [rank]: offsets of the rank's slices and states
  std::vector<rank_slices> slices_;    // [rank]: elements that the rank holds
};

}  // namespace troupe::plan
