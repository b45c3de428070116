#include "plan/choose/live_parameters.hpp"

#include <algorithm>
#include <vector>

#include "core/text.hpp"

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

std::string why_whole(const rank_plan& p) {
  if (!p.layout->gathers()) return {};
  uint64_t all = 0;
  for (const auto& q : p.table().parameters) all += q.is_copy() ? 0 : q.numel();
  if (peak_live_parameters(p) < all) return {};
  const auto& o = p.options().gathering;
  if (o.max_reuse_distance >= all)
    return core::text_of(
        ": stage3_max_reuse_distance %llu keeps every unit gathered until its next use, regardless of "
        "stage3_prefetch_bucket_size; set it to 0 to release units after each use",
        static_cast<unsigned long long>(o.max_reuse_distance));
  return core::text_of(
      ": stage3_prefetch_bucket_size %llu gathers the next units, at least one, in addition to the one in use",
      static_cast<unsigned long long>(o.prefetch_bucket));
}

}  // namespace troupe::plan
