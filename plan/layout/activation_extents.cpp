#include "plan/layout/activation_extents.hpp"

#include "core/math.hpp"

namespace troupe::plan {

uint64_t activation_window_bytes(const job_layout& l, uint32_t unit) {
  const auto& t = l.options.tiers;
  const auto& info = l.table->units[unit];
  if (!l.options.recompute || t.activations == tier::device || info.segments.empty()) return 0;
  return unit == 0 || unit > t.activation_units ? 0 : core::round_up(info.input_bytes, swap_page_bytes);
}

void place_activations(rank_plan& p) {
  p.activation_extents.assign(p.table().units.size(), {});
  if (p.options().tiers.activations != tier::nvme) return;
  for (uint32_t u = 0; u < p.activation_extents.size(); ++u) {
    p.activation_extents[u] = {p.swap_file_bytes, activation_window_bytes(*p.layout, u)};
    p.swap_file_bytes += p.activation_extents[u].bytes;
  }
}

}  // namespace troupe::plan
