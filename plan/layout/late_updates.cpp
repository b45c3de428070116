#include "plan/late_updates.hpp"

#include "core/math.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {
namespace {

constexpr uint64_t column_bytes = sizeof(double) + 1;

uint64_t room_of(const rank_plan& p, uint32_t q) {
  return defers(p, q) ? core::round_up(p.own_states(q).count, core::parameter_grain) : 0;
}

}  // namespace

bool defers(const rank_plan& p, uint32_t q) {
  return p.options().updates.late.on() && p.options().mode == mode::train &&
         p.table().parameters[q].shape.size() == 2 && p.layout->trains(q) &&
         p.layout->need_of(q) == update_need::elements && p.own_states(q).count > 0;
}

uint64_t deferred_offset(const rank_plan& p, uint32_t parameter) {
  uint64_t out = 0;
  if (!p.options().updates.late.on()) return out;
  for (uint32_t q = 0; q < parameter; ++q) out += room_of(p, q);
  return out;
}

uint64_t deferred_elements(const rank_plan& p) {
  return deferred_offset(p, static_cast<uint32_t>(p.table().parameters.size()));
}

uint64_t deferred_bytes(const rank_plan& p) {
  if (!p.options().updates.late.on()) return 0;
  uint64_t out = deferred_elements(p) * core::size_of(p.options().master());
  for (uint32_t q = 0; q < p.table().parameters.size(); ++q)
    if (defers(p, q)) out += column_bytes * static_cast<uint64_t>(p.table().parameters[q].shape[1]);
  return out;
}

}  // namespace troupe::plan
