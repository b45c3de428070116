#include "actors/hands/unit_roles.hpp"

#include "plan/group_exchange.hpp"
#include "plan/stages.hpp"

namespace troupe::actors {

bool is_head(const plan::rank_plan& p, uint32_t unit) { return unit + 1 == p.table().units.size(); }

bool ends_unit(const plan::rank_plan& p, const plan::instruction& x) {
  return x.segment + 1 == p.table().units[x.subject].segments.size();
}

bool gives_loss(const plan::rank_plan& p, const plan::instruction& x) {
  return is_head(p, x.subject) && ends_unit(p, x);
}

bool ends_in_exchange(const plan::rank_plan& p, uint32_t unit) {
  const auto& l = *p.layout;
  const auto segments = static_cast<uint32_t>(p.table().units[unit].segments.size());
  return segments > 0 && plan::exchange_of(l, unit, segments - 1, plan::use::forward).ranks > 1;
}

bool passes_teacher_on(const plan::rank_plan& p, const plan::instruction& x) {
  const auto& l = *p.layout;
  const uint32_t stage = l.stage_of_unit[x.subject];
  return plan::carries_teacher(l) && stage + 1 < plan::num_stages(l) && x.subject == plan::last_computing(l, stage) &&
         ends_unit(p, x);
}

bool is_from_stage(const plan::rank_plan& p, const plan::instruction& x) {
  const auto& l = *p.layout;
  const uint32_t stage = l.stage_of_unit[x.subject];
  if (x.kind != plan::kind::backward)
    return stage > 0 && (x.subject == plan::first_computing(l, stage) || x.subject == plan::first_forward(l, stage)) &&
           (x.segment == 0 || x.segment == plan::none);
  return x.subject == plan::last_computing(l, stage) && ends_unit(p, x);
}

std::optional<slot_parts> parts_of(const plan::rank_plan& p, const plan::instruction& x) {
  const auto& l = *p.layout;
  const auto& what = plan::exchange_of(l, x.subject, x.segment,
                                       x.kind == plan::kind::backward ? plan::use::backward : plan::use::forward);
  const uint32_t ranks = what.ranks;
  if (ranks == 1 || what.op == core::exchange_op::sum) return std::nullopt;
  slot_parts out{{}, ranks, what.bytes, what.given_at(), what.op == core::exchange_op::scatter};
  if (what.op == core::exchange_op::gather) out.own = l.options.mesh.tensor_at(p.rank);
  if (what.op == core::exchange_op::collect)
    out.own = what.is_of_tensor_group() ? l.options.mesh.tensor_at(p.rank) : l.options.mesh.sequence_at(p.rank);
  return out;
}

}  // namespace troupe::actors
