#include "job/missed_budget.hpp"

#include <algorithm>

#include "plan/memory_places.hpp"

namespace troupe::job {

missed_budget missed_budget_of(const config::job_config& c, const plan::memory_limits& limits, const plan::fitted& x) {
  const uint64_t ranks = std::max(1U, c.parallel.ranks());
  const auto& tiers = x.options.tiers;
  const auto misses = [](uint64_t needed, uint64_t limit) { return limit > 0 && needed > limit; };
  if (const uint64_t all = x.memory.total(); misses(all, limits.total))
    return {passes_budget, all * ranks, c.compile.memory_budget};
  if (const uint64_t device = plan::device_bytes(x.memory, tiers); misses(device, limits.device))
    return {device_budget, device * ranks, c.cuda.memory_limit};
  return {"cluster.host_memory_budget", plan::budgeted_bytes(x.memory, tiers) * ranks, c.host_memory_budget};
}

}  // namespace troupe::job
