// Decides the order of instructions by a search of an explicit graph: slow, simple, and independent of
// happens_before.cpp.
#pragma once

#include <vector>

#include "plan/check/happens_before.hpp"

namespace troupe::plan {

class order_oracle {
 public:
  order_oracle(rank_plans ranks, branch taken);
  /// Returns true if instruction `a` of rank `ra` has ended before instruction `b` of rank `rb` accesses its memory;
  /// `happens_before::before` must return the same.
  [[nodiscard]] bool before(uint32_t ra, uint32_t a, uint32_t rb, uint32_t b) const;

 private:
  // Each instruction has a node for its start and one for its end. The starts of all members of a collective lead to
  // one node, which leads to all their ends.
  [[nodiscard]] uint32_t start(uint32_t r, uint32_t id) const { return 2 * (base_[r] + id); }
  [[nodiscard]] uint32_t end(uint32_t r, uint32_t id) const { return start(r, id) + 1; }
  [[nodiscard]] uint32_t collective(const instruction& x) const {
    return first_collective_[x.communicator] + x.sequence;
  }
  /// Returns the node at which the instruction first accesses its memory.
  [[nodiscard]] uint32_t acts(uint32_t r, uint32_t id) const;
  void edge(uint32_t from, uint32_t to) { next_[from].push_back(to); }

  rank_plans ranks_;
  std::vector<uint32_t> base_;
  std::vector<uint32_t> first_collective_;  // node number of the first collective of each communicator
  std::vector<std::vector<uint32_t>> next_;
};

}  // namespace troupe::plan
