// What an instruction of the compute lane is at its place in the plan: whether it ends a unit, begins or leaves a
// stage, gives the loss. Pure questions about a plan; tensors are the business of the hands that ask.
#pragma once

#include <cstdint>
#include <optional>

#include "actors/hands/transferred.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// Whether the unit is the model's last, which gives the loss.
bool is_head(const plan::rank_plan& p, uint32_t unit);

/// Whether `x` is of its unit's last segment.
bool ends_unit(const plan::rank_plan& p, const plan::instruction& x);

/// Whether `x` is of the model's last segment.
bool gives_loss(const plan::rank_plan& p, const plan::instruction& x);

/// Whether nobody has what the unit puts out until its ranks have exchanged it.
bool ends_in_exchange(const plan::rank_plan& p, uint32_t unit);

/// Whether `x` is a forward after which a teacher's hidden state crosses into the next stage.
bool passes_teacher_on(const plan::rank_plan& p, const plan::instruction& x);

/// Whether what `x` takes was computed by another stage.
bool is_from_stage(const plan::rank_plan& p, const plan::instruction& x);

/// The parts of what `x` puts out, where ranks exchange parts; nothing where they add or nobody exchanges.
std::optional<slot_parts> parts_of(const plan::rank_plan& p, const plan::instruction& x);

}  // namespace troupe::actors
