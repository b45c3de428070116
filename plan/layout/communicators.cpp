#include "plan/layout/communicators.hpp"

#include <algorithm>
#include <numeric>

namespace troupe::plan {

std::vector<communicator> communicators_of(const plan_options& options) {
  std::vector<uint32_t> all(options.ranks());
  std::iota(all.begin(), all.end(), 0U);
  return {{"data", std::move(all)}};
}

uint32_t communicator_of(const job_layout&, uint32_t, const operation&) { return 0; }

void add_collectives(std::vector<uint64_t>& met, rank_plans plans) {
  for (uint32_t c = 0; c < plans.front()->num_collectives.size(); ++c) {
    uint32_t most = 0;  // the same on all members, none on others
    for (const auto& p : plans) most = std::max(most, p->num_collectives[c]);
    if (met.size() <= c) met.push_back(0);
    met[c] += most;
  }
}

}  // namespace troupe::plan
