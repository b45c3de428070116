// A checkpoint source whose tensors are the states in the ranks' memory: a run that changes its parallel degrees loads
// its own states as it would load a checkpoint. Owns the list of tensors and their offsets in the file that such a
// checkpoint would have; checkpoint_load.hpp loads the source.
#pragma once

#include "actors/memory/whole_states.hpp"
#include "formats/source/tensor_source.hpp"
#include "job/step/optimizer_groups.hpp"

namespace troupe::actors {

/// Returns a source of the master weights, moments and frozen parameters in `states`; `table` is that of the whole
/// model. Copies of tied parameters and a teacher's parameters are left out. The source has tensors only: its `run` is
/// empty. The states must not change while the source is read, and must outlive it.
formats::tensor_source source_of_states(const whole_states& states, const core::model_table& table,
                                        const job::optimizer_groups& groups);

}  // namespace troupe::actors
