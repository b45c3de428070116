// A plan together with its history: the writers' draft and the changes of each pass.
#pragma once

#include <vector>

#include "core/error.hpp"
#include "plan/generate/generate.hpp"
#include "plan/passes/pass.hpp"

namespace troupe::plan {

/// A plan, and how it came about.
struct explained_plan {
  std::shared_ptr<const rank_plan> plan;
  std::vector<account> accounts;  ///< the writers' first, then the passes' as they ran
};

/// As `generate`, with its history.
core::result<explained_plan> explain(std::shared_ptr<const job_layout> layout, uint32_t rank);

}  // namespace troupe::plan
