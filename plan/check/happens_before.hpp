// Which instructions end before others start, whatever the timing, over all ranks of a step. Owns the order that lanes,
// `after` and collectives enforce; the checker decides which order is needed, and why.
//
// The compute, shard and writer lanes do one instruction at a time. The control and io lanes only start theirs in
// order, the fabric lane those of one communicator: several may be under way, and they may end in any order. A
// collective moves bytes once every member has started it and has ended once every member has finished, so it is one
// node for all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

[[nodiscard]] inline bool runs(const instruction& x, branch taken) { return acts(x.guard, taken); }

class happens_before {
 public:
  /// Needs sound ids, lanes that hold each instruction once, and collectives that match on all ranks given, in the
  /// order of their communicators (check.hpp sees to that first). `ranks` may be some of the job's: a collective then
  /// waits for those of its members that are among them. A cycle fails and is named, instruction by instruction.
  static core::result<happens_before> build(rank_plans ranks, branch taken);

  /// Instruction `a` of rank `ra` has ended, on every member of a collective, before `b` of rank `rb` starts, whatever
  /// the timing; ranks by their place in `build`'s list. Both run in this branch. Constant time.
  [[nodiscard]] bool before(uint32_t ra, uint32_t a, uint32_t rb, uint32_t b) const;

 private:
  friend class order_builder;

  // Whatever ended before an instruction starts, ended before all later ones of its line start: a line is a lane of a
  // rank, or a communicator. So for each line it is enough to know the first position that `a` precedes; and lanes that
  // run one at a time need only clocks. What a rank knows of others it has from collectives that ended.
  static constexpr uint32_t num_serial = 3;                  ///< compute, shard, writer
  static constexpr uint32_t lines_of_rank = 2 + num_serial;  ///< control, the serial ones, io
  struct spot {
    uint32_t line = 0;      ///< lines_of_rank per rank; then the communicators
    uint32_t position = 0;  ///< in it
    uint32_t async = none;  ///< index among instructions that need not end in order
  };
  struct clock {
    uint32_t ended[num_serial] = {};  ///< of a rank's serial lanes
  };
  [[nodiscard]] const spot& at(uint32_t rank, uint32_t id) const { return spots_[base_[rank] + id]; }
  /// Of the lines of a rank.
  [[nodiscard]] static uint32_t number_of(lane l) { return static_cast<uint32_t>(l) - (l > lane::fabric ? 1 : 0); }
  [[nodiscard]] static uint32_t serial_of(lane l) { return number_of(l) - 1; }
  [[nodiscard]] uint32_t first_communicator() const { return lines_of_rank * num_ranks_; }
  /// Communicators that `rank` is in.
  [[nodiscard]] uint32_t width(uint32_t rank) const { return static_cast<uint32_t>(collective_of_row_[rank].size()); }
  /// What had ended of `rank` before the collective moves bytes.
  [[nodiscard]] const clock& arrival(uint32_t collective, uint32_t rank) const {
    return arrival_[size_t{collective} * num_ranks_ + rank];
  }

  uint32_t num_ranks_ = 0, num_async_ = 0;
  std::vector<uint32_t> base_;  ///< [rank]: of its instructions below
  std::vector<spot> spots_;     ///< [instruction]
  std::vector<clock> clocks_;   ///< [instruction]: of the own rank's lanes; of collectives unused
  std::vector<clock> arrival_;  ///< [collective * ranks + rank], collectives being the first asyncs
  std::vector<std::vector<uint32_t>> collective_of_row_;  ///< [rank][place in its rows]: the communicator's first async
  std::vector<size_t> heard_base_;                        ///< [rank]: of its rows below
  std::vector<uint32_t> heard_of_;    ///< [rank][instruction][communicator of the rank]: 1 + the latest that has ended
  std::vector<uint32_t> first_;       ///< [line * async + a]: the first position of the line that `a` precedes
  std::vector<uint32_t> collective_;  ///< [communicator]: its first one's async
};

}  // namespace troupe::plan
