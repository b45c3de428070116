// Owns the order that lanes, `after` and collectives enforce: which instructions end before others start, whatever the
// timing, over all ranks of a step. The checker decides which order is needed, and why.
//
// The compute, shard and writer lanes run one instruction at a time. The control and io lanes only start theirs in
// order, and so does the fabric lane within one communicator: several may be in progress, and they may end in any
// order. A collective moves bytes once every member has started it and has ended once every member has finished, so it
// is one node for all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

[[nodiscard]] inline bool runs(const instruction& x, branch taken) { return acts(x.guard, taken); }

class happens_before {
 public:
  /// Builds the order of the instructions that run in branch `taken`. Requires valid ids, lanes that hold each
  /// instruction once, and collectives that match on all ranks given, in the order of their communicators (check.hpp
  /// checks this first). `ranks` may be some of the job's ranks: a collective then waits for its members among the
  /// given ranks. Fails for a cycle, and names its instructions.
  static core::result<happens_before> build(rank_plans ranks, branch taken);

  /// True if instruction `a` of rank `ra` has ended, on every member if it is a collective, before `b` of rank `rb`
  /// starts, whatever the timing. `ra` and `rb` are indices of ranks in `build`'s list. Both instructions must run in
  /// this branch. Constant time.
  [[nodiscard]] bool before(uint32_t ra, uint32_t a, uint32_t rb, uint32_t b) const;

 private:
  friend class order_builder;

  // A line is a lane of a rank, or a communicator. If `a` ends before `b` starts, `a` also ends before all later
  // instructions of `b`'s line start. It is therefore enough to store, for each line, the first position that `a`
  // precedes; lanes that run one instruction at a time need only clocks. A rank learns about other ranks only from
  // collectives that have ended.
  static constexpr uint32_t num_serial = 3;  ///< number of serial lanes: compute, shard, writer
  /// Number of lanes of a rank that are one line each: control, the serial lanes, io. The fabric lane has one line
  /// for each communicator.
  static constexpr uint32_t lines_of_rank = 2 + num_serial;
  struct spot {
    uint32_t line = 0;      ///< number of the instruction's line: lines_of_rank per rank, then the communicators
    uint32_t position = 0;  ///< position of the instruction in its line
    uint32_t async = none;  ///< index among instructions that may end out of order; none: it ends in order
  };
  struct clock {
    uint32_t ended[num_serial] = {};  ///< [serial lane]: number of the lane's instructions that have ended
  };
  [[nodiscard]] const spot& at(uint32_t rank, uint32_t id) const { return spots_[base_[rank] + id]; }
  /// Returns the number of a lane's line among the lines of its rank.
  [[nodiscard]] static uint32_t number_of(lane l) { return static_cast<uint32_t>(l) - (l > lane::fabric ? 1 : 0); }
  [[nodiscard]] static uint32_t serial_of(lane l) { return number_of(l) - 1; }
  [[nodiscard]] uint32_t first_communicator() const { return lines_of_rank * num_ranks_; }
  /// Returns the number of communicators that `rank` is in.
  [[nodiscard]] uint32_t width(uint32_t rank) const { return static_cast<uint32_t>(collective_of_row_[rank].size()); }
  /// Returns, for each serial lane of `rank`, the number of instructions that have ended before the collective moves
  /// bytes.
  [[nodiscard]] const clock& arrival(uint32_t collective, uint32_t rank) const {
    return arrival_[size_t{collective} * num_ranks_ + rank];
  }

  uint32_t num_ranks_ = 0, num_async_ = 0;
  std::vector<uint32_t> base_;  ///< [rank]: index of the rank's first instruction in spots_ and clocks_
  std::vector<spot> spots_;     ///< [instruction]: line and position of the instruction
  std::vector<clock> clocks_;   ///< [instruction]: clock of its rank when it starts; unused for collectives
  std::vector<clock> arrival_;  ///< [collective * ranks + rank]: clock of the rank when the collective moves bytes
  /// [rank][index of a communicator among the rank's communicators]: `spot::async` of the communicator's first
  /// collective.
  std::vector<std::vector<uint32_t>> collective_of_row_;
  std::vector<size_t> ended_base_;  ///< [rank]: index of the rank's first row in ended_before_
  /// [rank][instruction][communicator of the rank]: 1 + the position of the latest collective of the communicator that
  /// has ended before the instruction starts; 0: none has.
  std::vector<uint32_t> ended_before_;
  /// [line * num_async_ + a]: first position in the line that the instruction whose `spot::async` is `a` precedes.
  std::vector<uint32_t> first_;
  std::vector<uint32_t> collective_;  ///< [communicator]: `spot::async` of its first collective
};

}  // namespace troupe::plan
