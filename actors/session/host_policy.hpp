// Which layers of a host's own model a configuration says to cut: DeepSpeed's keys of a user's model, as a policy of
// models/inject/. Owns the translation; what matches is injection's.
#pragma once

#include <memory>

#include "config/partition_config.hpp"
#include "core/error.hpp"
#include "models/inject/policy.hpp"

namespace troupe::actors {

/// Null: the section says nothing, and the model's own policy counts. Each spec of `partition_config` is a rule, where
/// `gather_output` means that the output is whole behind the unit; tp_grain_size elements stay together. Refused
/// (bad_input), with key and line: a preset, which names modules of published models, shapes that need the size of a
/// layer, and a dimension or a gathered output that the style does not have.
core::result<std::shared_ptr<const models::injection_policy>> policy_of(const config::tensor_parallel_section& section);

}  // namespace troupe::actors
