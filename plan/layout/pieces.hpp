// The elements that each collective of a step moves: owner, source place, destination. Pure functions of the layout
// that all ranks share, so that every rank, the fabric and the checker see the same lists.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/instruction.hpp"
#include "plan/job_layout.hpp"
#include "plan/layout/rank_slices.hpp"

namespace troupe::plan {

/// A run of elements that a collective moves; the fabric's `piece` field for field.
struct moved_piece {
  uint32_t owner = 0;
  uint64_t from = 0, to = 0, count = 0;
  bool operator==(const moved_piece&) const = default;
};

class collective_pieces {
 public:
  /// Works out where every rank's slices lie; keeps `l`, which has to outlive it.
  explicit collective_pieces(const job_layout& l);

  /// From the owner's slice layout (or its window) into the set's.
  [[nodiscard]] std::vector<moved_piece> gather(uint32_t set) const;
  /// The same from the second copy's parts.
  [[nodiscard]] std::vector<moved_piece> gather_near(uint32_t set) const;
  /// From the bucket's layout to where reduced gradients lie (in place, full or slice layout). Of replicas each has an
  /// owner of every element, and these stand side by side.
  [[nodiscard]] std::vector<moved_piece> reduce(uint32_t bucket) const;
  /// Within the full layout.
  [[nodiscard]] std::vector<moved_piece> publish(uint32_t set) const;
  /// Within the doubles of `job_layout::measured_elements`.
  [[nodiscard]] std::vector<moved_piece> measure() const;
  /// Every owner's slices of its share, within the slot of the matrix set.
  [[nodiscard]] std::vector<moved_piece> collect(uint32_t set) const;
  /// All shares from the ranks that made the matrices orthogonal, within that slot.
  [[nodiscard]] std::vector<moved_piece> spread(uint32_t set) const;
  /// In the ranks of `column`: from the start of a use's reduced gradient, as far as its rank holds it, into its place
  /// in the other's slot.
  [[nodiscard]] std::vector<moved_piece> tie(uint32_t exchange, uint32_t column) const;
  /// Within the vote's doubles: each square sum and each loss from one rank.
  [[nodiscard]] std::vector<moved_piece> vote() const;

  /// Of a send or a receive: the bytes of its slot, from the rank that filled it.
  [[nodiscard]] std::vector<moved_piece> transfer(const instruction& x) const;

  /// Of an exchange: summands and their sums in the slot, each rank adding a run of elements of the parameters' type;
  /// or each rank's part, in bytes.
  [[nodiscard]] std::vector<moved_piece> exchange(const instruction& x) const;

  /// Of an agreement on ranges: each rank's part of the slot, in bytes.
  [[nodiscard]] std::vector<moved_piece> agree(uint32_t unit) const;

  /// The pieces that a collective instruction moves; none for other kinds.
  [[nodiscard]] std::vector<moved_piece> of(const instruction& x) const;

  /// Where the slices and states of `rank` lie, and which elements they are.
  [[nodiscard]] const rank_offsets& offsets(uint32_t rank) const { return offsets_[rank]; }
  [[nodiscard]] const rank_slices& slices(uint32_t rank) const { return slices_[rank]; }

 private:
  /// A piece for each slice of the set within a replica.
  template <class From, class To>
  [[nodiscard]] std::vector<moved_piece> slices_of(const parameter_set& set, From from, To to) const;

  const job_layout& l_;
  std::vector<rank_offsets> offsets_;  // [rank]
  std::vector<rank_slices> slices_;    // [rank]
};

}  // namespace troupe::plan
