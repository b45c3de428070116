// Which instructions end before others start, whatever the timing, over all ranks of a step. Owns the order that lanes,
// `after` and collectives enforce; the checker decides which order is needed, and why.
//
// The compute, shard and writer lanes do one instruction at a time. The control, fabric and io lanes only start theirs
// in order: several may be under way, and they may end in any order. A collective moves bytes once every member has
// started it and has ended once every member has finished, so it is one node for all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// How the step's vote turns out: which guarded instructions run.
enum class branch : uint8_t { not_skipped, skipped };

[[nodiscard]] inline bool runs(const instruction& x, branch taken) {
  return x.guard == guard::always || (x.guard == guard::not_skipped) == (taken == branch::not_skipped);
}

class happens_before {
 public:
  /// Needs sound ids, lanes that hold each instruction once, and collectives that match on all ranks, in lane order
  /// (check.hpp sees to that first). A cycle fails and is named, instruction by instruction.
  static core::result<happens_before> build(rank_plans ranks, branch taken);

  /// Instruction `a` of rank `ra` has ended, on every member of a collective, before `b` of rank `rb` starts, whatever
  /// the timing. Both run in this branch. Constant time.
  [[nodiscard]] bool before(uint32_t ra, uint32_t a, uint32_t rb, uint32_t b) const;

 private:
  friend class order_builder;

  // Whatever ended before an instruction starts, ended before all later ones of its lane start. So for each lane that
  // waits it is enough to know the first position that `a` precedes; and lanes that run one at a time need only clocks.
  static constexpr uint32_t num_serial = 3;                  ///< compute, shard, writer
  static constexpr uint32_t lanes_of_rank = 2 + num_serial;  ///< with control and io, without the fabric's
  struct spot {
    uint32_t lane = 0;      ///< lanes_of_rank per rank: control, the serial ones, io; then the fabric's
    uint32_t position = 0;  ///< in its lane
    uint32_t async = none;  ///< index among instructions of pipelined lanes
  };
  struct clock {
    uint32_t ended[num_serial] = {};  ///< of the own rank's serial lanes
    uint32_t collectives = 0;         ///< 1 + the latest that has ended
  };
  [[nodiscard]] const spot& at(uint32_t rank, uint32_t id) const { return spots_[base_[rank] + id]; }
  /// Of the lanes of a rank without the fabric's.
  [[nodiscard]] static uint32_t number_of(lane l) { return static_cast<uint32_t>(l) - (l > lane::fabric ? 1 : 0); }
  [[nodiscard]] static uint32_t serial_of(lane l) { return number_of(l) - 1; }
  [[nodiscard]] uint32_t fabric() const { return lanes_of_rank * num_ranks_; }

  uint32_t num_ranks_ = 0, num_async_ = 0;
  std::vector<uint32_t> base_;  ///< [rank]: of its instructions below
  std::vector<spot> spots_;     ///< [instruction]
  std::vector<clock> clocks_;   ///< [instruction], of collectives unused
  std::vector<clock>
      arrival_;  ///< [collective * ranks + rank]: instructions of that rank that ended before it moves bytes
  std::vector<uint32_t> first_;  ///< [lane * async + a]: the first position of the lane that `a` precedes
};

}  // namespace troupe::plan
