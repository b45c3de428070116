// Decides during the simulation of a step which instructions may start: an instruction waits for the instructions that
// it names in `after`, and for its predecessor in its line. Counts these waits, and records which members have posted
// which collective. Clocks and prices are in the simulations (cost.cpp, shared_cores.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// A member that has posted its part of a collective.
struct arrival {
  double at_s = 0;
  uint32_t rank = 0, id = 0;
};

/// One collective and the members that have posted it.
struct posted_collective {
  std::vector<arrival> posted;
  uint32_t members = 0;
  uint32_t moving = 0;  ///< number of members that have yet to move their bytes; used by shared_cores.cpp only
  [[nodiscard]] bool complete() const { return posted.size() == members; }
};

/// The waits of all instructions. A line is a lane of a rank; on the fabric lane, the instructions of a rank in one
/// communicator. Times are seconds since the step began. Functions that take `start` call it with (seconds, rank, id)
/// for each instruction that waits for nothing more.
class wait_graph {
 public:
  /// Requires at least one plan in `ranks`; all plans must outlive the graph. `latency_s`: seconds from the end of an
  /// instruction to the start of one on another lane or rank that depends on it.
  wait_graph(rank_plans ranks, double latency_s);

  [[nodiscard]] const instruction& at(uint32_t rank, uint32_t id) const { return plans_[rank]->instructions[id]; }
  [[nodiscard]] const rank_plan& plan_of(uint32_t rank) const { return *plans_[rank]; }
  [[nodiscard]] uint32_t num_ranks() const { return static_cast<uint32_t>(plans_.size()); }
  posted_collective& collective_of(const instruction& x) { return collectives_[x.communicator][x.sequence]; }
  /// Returns the latency of a collective; 0 for a collective of one rank, which waits for no other member.
  [[nodiscard]] double latency_of(const instruction& x) const {
    return plans_[0]->layout->communicators[x.communicator].members.size() > 1 ? latency_s_ : 0;
  }

  /// Calls `start` for the instructions that wait for nothing at the beginning of the step.
  void begin(auto&& start) const {
    for (uint32_t r = 0; r < num_ranks(); ++r)
      for (uint32_t id = 0; id < ranks_[r].unmet.size(); ++id)
        if (ranks_[r].unmet[id] == 0) start(0.0, r, id);
  }
  /// Marks the line of instruction `id` as free at time `at_s`, and calls `start` for its next instruction if that is
  /// ready.
  void free_line(uint32_t rank, uint32_t id, double at_s, auto&& start) {
    if (const uint32_t next = ranks_[rank].behind[id]; next != none) met(rank, next, at_s, start);
  }
  /// Marks instruction `x` as ended at `at_s`, and removes the waits for it. An instruction in another lane is ready
  /// one latency later.
  void end(uint32_t rank, const instruction& x, double at_s, auto&& start) {
    for (const uint32_t d : ranks_[rank].dependents[x.id])
      met(rank, d, at_s + (at(rank, d).lane == x.lane ? 0 : latency_s_), start);
  }

 private:
  // The waits of one rank's instructions; each list is indexed by instruction id.
  struct rank_waits {
    std::vector<uint32_t> unmet;   // number of instructions that have not ended and that this one waits for, including
                                   // its predecessor in the line
    std::vector<double> ready_s;   // latest end so far, in seconds, of the instructions that the instruction waited for
    std::vector<uint32_t> behind;  // next instruction in the instruction's line
    std::vector<std::vector<uint32_t>> dependents;  // instructions that name the instruction in `after`
  };
  void prepare(uint32_t rank);
  void met(uint32_t rank, uint32_t id, double at_s, auto&& start) {
    auto& s = ranks_[rank];
    s.ready_s[id] = std::max(s.ready_s[id], at_s);
    if (--s.unmet[id] == 0) start(s.ready_s[id], rank, id);
  }

  rank_plans plans_;
  const double latency_s_;
  std::vector<rank_waits> ranks_;
  std::vector<std::vector<posted_collective>> collectives_;  // [communicator][sequence]: collective and its members
};

}  // namespace troupe::plan
