// Which layers of a host's own model a configuration says to cut: DeepSpeed's keys of a user's model, as a policy of
// models/inject/. Owns the translation; what matches is injection's.
#pragma once

#include <functional>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "models/host/module_model.hpp"

namespace troupe::actors {

/// Gives a model the policy that the section says; empty: it says nothing, and the model's own counts. Each spec of
/// `partition_config` is a rule, where `gather_output` means that the output is whole behind the unit, and
/// injection_policy_tuple are names of row layers; tp_grain_size elements stay together. Without both a model's own
/// policy counts, and where it has none and the degree is said as autotp_size the heuristic. vocab_parallel_lm_head is
/// a rule of the last unit in front of all, replace_with_kernel_inject goes with any policy. Refused (bad_input), with
/// key and line: a preset, which names modules of published models, shapes that need the size of a layer, and a
/// dimension or a gathered output that the style does not have.
core::result<std::function<models::module_model(models::module_model)>> policy_of(const config::job_config& config);

}  // namespace troupe::actors
