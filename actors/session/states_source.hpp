// The states of a session's ranks as a checkpoint that lies nowhere but in their memory: a run that changes its degrees
// takes them over as it would take over a file's. Owns the list of tensors and where each stands in the file that there
// would be; checkpoint_load.hpp loads it.
#pragma once

#include "actors/memory/whole_states.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "job/optimizer_groups.hpp"

namespace troupe::actors {

/// Master weights, moments and frozen parameters of `table`, the whole model's, without copies and a teacher's. Of the
/// run only its tensors: `run` is empty. The states may not change while the source is read, and outlive it.
checkpoint::tensor_source source_of_states(const whole_states& states, const core::model_table& table,
                                           const job::optimizer_groups& groups);

}  // namespace troupe::actors
