// The schedule of a rank that computes the whole model: all forward, all backward, micro-batch by micro-batch. Owns the
// order of uses; the instructions around them are write/'s.
#pragma once

#include "core/model_table.hpp"
#include "plan/instruction.hpp"
#include "plan/options.hpp"

namespace troupe::plan {

/// Forward in order, backward in reverse, for every micro-batch. Forward only unless the plan trains; empty if it only
/// saves.
schedule serial_schedule(const core::model_table& table, const plan_options& options);

}  // namespace troupe::plan
