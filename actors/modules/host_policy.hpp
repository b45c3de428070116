// Decides which layers of a host's own model a configuration cuts: translates DeepSpeed's keys for a user's model into
// a policy of models/inject/. Owns the translation; models/inject/ owns the matching of names.
#pragma once

#include <functional>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "models/host/module_model.hpp"

namespace troupe::actors {

/// Returns a function that sets the policy of the section on a model; empty if the section sets none, in which case the
/// model's own policy applies. Each spec of `partition_config` becomes a rule; its `gather_output` means that the
/// output is whole after the unit. injection_policy_tuple contains names of row layers; tp_grain_size elements stay
/// together. Without both keys a model's own policy applies; if it has none and the degree is set as autotp_size or
/// tp_size, the heuristic applies. vocab_parallel_lm_head adds a rule for the last unit before all others;
/// replace_with_kernel_inject combines with any policy. Errors (bad_input), with key and line: a preset, which names
/// modules of published models; shapes that need the size of a layer; a dimension or a gathered output that the style
/// does not have.
core::result<std::function<models::module_model(models::module_model)>> policy_of(const config::job_config& config);

}  // namespace troupe::actors
