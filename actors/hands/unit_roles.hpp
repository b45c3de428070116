// Functions that derive the role of a compute-lane instruction from the plan: whether it ends a unit, begins or ends a
// pipeline stage, computes the loss. Pure, without tensors.
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

/// True if the output of the unit's last segment is complete only after ranks of a tensor or sequence group have
/// exchanged their parts of it.
bool ends_in_exchange(const plan::rank_plan& p, uint32_t unit);

/// True if `x` computes the last tensors of its pipeline stage and the next stage needs the distillation teacher's
/// hidden state in addition to the model's.
bool passes_teacher_on(const plan::rank_plan& p, const plan::instruction& x);

/// True if the input slot of `x`, if it has one, holds tensors that another pipeline stage has computed: the first
/// forward of a stage, or the first backward.
bool is_from_stage(const plan::rank_plan& p, const plan::instruction& x);

/// Returns the layout of the slot into which `x` writes its output if ranks exchange parts of that output; none if they
/// add their outputs up or exchange nothing.
std::optional<slot_parts> parts_of(const plan::rank_plan& p, const plan::instruction& x);

}  // namespace troupe::actors
