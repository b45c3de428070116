// A plan together with its history: the writers' draft and the changes of each pass.
#pragma once

#include <span>
#include <vector>

#include "core/error.hpp"
#include "plan/generate/generate.hpp"
#include "plan/passes/pass.hpp"

namespace troupe::plan {

struct explained_plan {
  std::shared_ptr<const rank_plan> plan;
  std::vector<account> accounts;  ///< the writers' first, then the passes' as they ran
};

/// As `generate`, with these passes. Fails only if their contracts contradict each other.
core::result<explained_plan> explain(std::shared_ptr<const job_layout> layout, uint32_t rank,
                                     std::span<const pass> passes = all_passes());

}  // namespace troupe::plan
