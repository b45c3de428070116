// What the instructions of a step wait for while it is played: what they name, and who is before them in their line.
// Owns these counts and who has come to which collective; clocks and prices are the players' (cost.cpp,
// shared_cores.cpp).
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

struct meeting {  ///< one collective
  std::vector<arrival> posted;
  uint32_t members = 0;
  uint32_t moving = 0;  ///< members whose share is not done, for players to which a share is work of its member
  [[nodiscard]] bool complete() const { return posted.size() == members; }
};

/// A line is a lane of a rank, of the fabric's what it does in one communicator. Times are seconds since the step
/// began. Functions that take `start` call it with (seconds, rank, id) for each instruction that waits for nothing
/// more.
class wait_graph {
 public:
  /// `ranks` has at least one plan, and all of them outlive the graph. `latency_s`: docs of `play`.
  wait_graph(rank_plans ranks, double latency_s);

  [[nodiscard]] const instruction& at(uint32_t rank, uint32_t id) const { return plans_[rank]->instructions[id]; }
  [[nodiscard]] const rank_plan& plan_of(uint32_t rank) const { return *plans_[rank]; }
  [[nodiscard]] uint32_t num_ranks() const { return static_cast<uint32_t>(plans_.size()); }
  meeting& meeting_of(const instruction& x) { return meetings_[x.communicator][x.sequence]; }
  /// A collective of one rank has no other to hear from, so it begins at once.
  [[nodiscard]] double latency_of(const instruction& x) const {
    return plans_[0]->layout->communicators[x.communicator].members.size() > 1 ? latency_s_ : 0;
  }

  /// Those that wait for nothing when the step begins.
  void begin(auto&& start) const {
    for (uint32_t r = 0; r < num_ranks(); ++r)
      for (uint32_t id = 0; id < ranks_[r].unmet.size(); ++id)
        if (ranks_[r].unmet[id] == 0) start(0.0, r, id);
  }
  /// The next in its line no longer waits for `id`.
  void free_line(uint32_t rank, uint32_t id, double at_s, auto&& start) {
    if (const uint32_t next = ranks_[rank].behind[id]; next != none) met(rank, next, at_s, start);
  }
  /// `x` has ended; whoever waits for it in another lane hears of it by a message.
  void end(uint32_t rank, const instruction& x, double at_s, auto&& start) {
    for (const uint32_t d : ranks_[rank].dependents[x.id])
      met(rank, d, at_s + (at(rank, d).lane == x.lane ? 0 : latency_s_), start);
  }

 private:
  struct rank_waits {                               // [id] each
    std::vector<uint32_t> unmet;                    // how many it waits for, its predecessor in the line among them
    std::vector<double> ready_s;                    // so far
    std::vector<uint32_t> behind;                   // the next in its line
    std::vector<std::vector<uint32_t>> dependents;  // who names it
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
  std::vector<std::vector<meeting>> meetings_;  // [communicator][sequence]
};

}  // namespace troupe::plan
