#include "plan/choose/live_parameters.hpp"

#include <algorithm>
#include <vector>

namespace troupe::plan {

uint64_t peak_live_parameters(const rank_plan& p) {
  std::vector<uint32_t> holders(p.table().parameters.size(), 0);
  uint64_t live = 0, peak = 0;
  for (const auto& x : p.instructions) {
    if (x.kind != kind::gather && x.kind != kind::release) continue;
    for (const auto& place : p.layout->gather_sets[x.subject].parameters) {
      const uint64_t numel = p.table().parameters[place.parameter].numel();
      auto& n = holders[place.parameter];
      if (x.kind == kind::gather && n++ == 0) live += numel;
      if (x.kind == kind::release && n > 0 && --n == 0) live -= numel;
    }
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace troupe::plan
