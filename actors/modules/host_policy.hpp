// Decides which layers of the host program's own model are split over tensor ranks: translates DeepSpeed's keys of
// section tensor_parallel into a policy of models/inject/. Owns the translation; models/inject/ owns the matching of
// layer names.
#pragma once

#include <functional>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "models/host/module_model.hpp"

namespace troupe::actors {

/// Returns a function that sets, on a model, the policy for splitting its layers that section tensor_parallel
/// describes; empty if the section describes none, so that the model's own policy applies. Each entry of
/// `partition_config` becomes a rule; `gather_output` means that the output is whole after the unit.
/// injection_policy_tuple lists names of layers whose weights are split by input (row layers); tp_grain_size elements
/// stay together. Without these keys the model's own policy applies; if it has none and the degree is given by
/// autotp_size or tp_size, layers are chosen by a heuristic. vocab_parallel_lm_head adds a rule for the last unit
/// before all other rules; replace_with_kernel_inject can be combined with any policy. The rules of preset_model follow
/// those of partition_config, for modules with the names of the published model. Errors (bad_input), with key and line:
/// a preset of a model with experts; shapes that need the size of a layer; a dimension or a gathered output that the
/// kind of split does not have.
core::result<std::function<models::module_model(models::module_model)>> policy_of(const config::job_config& config);

}  // namespace troupe::actors
