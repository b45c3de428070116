// A plan together with how it came about: what the writers wrote and what each pass made of it.
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

/// As `generate`, by these passes. Fails only where their contracts cannot all be kept.
core::result<explained_plan> explain(std::shared_ptr<const job_layout> layout, uint32_t rank,
                                     std::span<const pass> passes = all_passes());

}  // namespace troupe::plan
