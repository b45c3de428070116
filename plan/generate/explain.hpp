// Owns a plan together with its history: the writers' draft and the changes of each pass.
#pragma once

#include <vector>

#include "core/error.hpp"
#include "plan/generate/generate.hpp"
#include "plan/passes/pass.hpp"

namespace troupe::plan {

/// A plan and its history.
struct explained_plan {
  std::shared_ptr<const rank_plan> plan;
  std::vector<account> accounts;  ///< one account of the writers, then one for each pass in the order of running
};

/// Makes the same plan as `generate`, and returns its history, too. Fails as `generate` does.
core::result<explained_plan> explain(std::shared_ptr<const job_layout> layout, uint32_t rank);

}  // namespace troupe::plan
