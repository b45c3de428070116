// Owns a plan together with its history: the writers' draft and the changes of each pass.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/error.hpp"
#include "plan/passes/pass.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// A plan, and the number of instructions that each phase of its generation added, removed or moved.
struct explained_plan {
  std::shared_ptr<const rank_plan> plan;
  /// Statistics of the draft: first the instructions that the schedule's writers have made, then the changes by each
  /// pass, in the order in which the passes ran.
  std::vector<account> accounts;
};

/// Makes the same plan as `generate`, and returns its history, too. Fails as `generate` does.
core::result<explained_plan> explain(std::shared_ptr<const job_layout> layout, uint32_t rank);

}  // namespace troupe::plan
