// Updates that do not wait for the vote: a sub-group is updated once its gradients are reduced and nobody reads its
// parameters any more, while backward goes on; a step that is skipped takes it back. Owns when that is; which
// sub-groups those are, and where copies of what they overwrite lie, is layout/update_memory.hpp's. See
// docs/numerics.md, "Speculation".
#pragma once

#include "plan/passes/swaps.hpp"
#include "plan/place/plan_writer.hpp"

namespace troupe::plan {

class speculation {  ///< follows the generator through backward
 public:
  /// `swaps` reads sub-groups ahead of their updates and writes them behind, where they live in files.
  speculation(plan_writer& writer, state_swaps& swaps);

  /// Writes the updates that have become possible; the last micro-batch's backward of `unit` has been written.
  void after_backward(uint32_t unit);
  /// Writes what takes them back; `vote` has been written.
  void undo(uint32_t vote);

 private:
  void look_at_new_instructions();
  [[nodiscard]] bool reduced(uint32_t group) const;
  void update(uint32_t group);

  plan_writer& writer_;
  state_swaps& swaps_;
  rank_plan& p_;
  uint32_t seen_ = 0;                           // instructions looked at
  std::vector<std::vector<uint32_t>> readers_;  // [sub-group]: units that read its parameters, and the persistent set
  std::vector<uint32_t> last_reader_;           // [sub-group]: the unit whose backward comes last
  std::vector<uint32_t> waiting_, updates_;     // sub-groups; instructions
  std::vector<uint32_t> norm_, last_use_;       // [bucket], [unit]: instructions so far
  std::vector<std::vector<uint32_t>> gathers_;  // [gather set]
};

}  // namespace troupe::plan
