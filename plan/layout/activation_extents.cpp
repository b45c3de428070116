#include "plan/layout/activation_extents.hpp"

#include <algorithm>

#include "core/math.hpp"
#include "plan/group_exchange.hpp"
#include "plan/stages.hpp"

namespace troupe::plan {

uint64_t most_activation_window_bytes(const job_layout& l, uint32_t unit) {
  const auto& info = l.table->units[unit];
  if (l.options.tiers.activations == tier::device || info.segments.empty() || begins_stage(l, unit)) return 0;
  if (unit < l.table->first_trained_unit()) return 0;
  return core::round_up(info.input_bytes, swap_page_bytes);
}

uint64_t activation_window_bytes(const job_layout& l, uint32_t unit) {
  // The model's first unit is never recomputed, and units before the first trained one have no backward.
  const uint32_t first = std::max(first_of_model(l) + 1, l.table->first_trained_unit());
  if (!l.options.recomputes(unit) || unit < first || unit - first >= l.options.tiers.activation_units) return 0;
  return most_activation_window_bytes(l, unit);
}

uint64_t swapped_state_bytes(const rank_plan& p) {
  uint64_t bytes = p.swap_file_bytes;
  for (const auto& x : p.activation_extents) bytes -= x.bytes;
  return bytes;
}

uint64_t most_swap_file_bytes(const rank_plan& p) {
  const job_layout& l = *p.layout;
  uint64_t bytes = swapped_state_bytes(p);
  if (l.options.tiers.activations != tier::nvme) return bytes;
  for (uint32_t u = 0; u < p.table().units.size(); ++u)
    if (computes(l, p.rank, u)) bytes += activation_extent(l, 1, 0) * most_activation_window_bytes(l, u);
  return bytes;
}

void place_activations(rank_plan& p) {
  const job_layout& l = *p.layout;
  const auto units = static_cast<uint32_t>(p.table().units.size());
  p.activation_extents.assign(activation_extent(l, units, 0), {});
  if (l.options.tiers.activations != tier::nvme) return;
  const uint32_t each = activation_extent(l, 1, 0);
  for (uint32_t u = 0; u < units; ++u) {
    const uint64_t bytes = computes(l, p.rank, u) ? activation_window_bytes(l, u) : 0;
    for (uint32_t micro = 0; micro < each; ++micro) {
      p.activation_extents[activation_extent(l, u, micro)] = {p.swap_file_bytes, bytes};
      p.swap_file_bytes += bytes;
    }
  }
}

uint64_t recomputed_from_bytes(const core::unit_info& unit, const plan_options& o) {
  uint64_t out = unit.input_bytes;
  if (o.repeat_exchanges) return out;
  for (size_t s = 0; s + 1 < unit.segments.size(); ++s) {
    const group_exchange x(o, unit.segments[s].output);
    out += x.bytes * (core::adds(x.op) ? 1 : x.ranks);
  }
  return out;
}

}  // namespace troupe::plan
