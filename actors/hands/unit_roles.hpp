// Answers questions about an instruction of the compute lane from the plan: whether it ends a unit, begins or leaves a
// stage, computes the loss. Pure functions of a plan, without tensors.
#pragma once

#include <cstdint>
#include <optional>

#include "actors/hands/transferred.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// True if the unit is the model's last, which computes the loss.
bool is_head(const plan::rank_plan& p, uint32_t unit);

/// True if `x` belongs to the last segment of its unit.
bool ends_unit(const plan::rank_plan& p, const plan::instruction& x);

/// True if `x` belongs to the last segment of the model, which computes the loss.
bool gives_loss(const plan::rank_plan& p, const plan::instruction& x);

/// True if the unit's output is complete only after its ranks have exchanged it.
bool ends_in_exchange(const plan::rank_plan& p, uint32_t unit);

/// True if `x` is a forward after which a teacher's hidden state is sent to the next stage.
bool passes_teacher_on(const plan::rank_plan& p, const plan::instruction& x);

/// True if the input of `x` was computed by another pipeline stage.
bool is_from_stage(const plan::rank_plan& p, const plan::instruction& x);

/// Returns the layout of the output parts of `x` if ranks exchange parts; none if they sum or do not exchange.
std::optional<slot_parts> parts_of(const plan::rank_plan& p, const plan::instruction& x);

}  // namespace troupe::actors
