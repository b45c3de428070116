// DeepSpeed's presets of `tensor_parallel.preset_model`: which layers of a family of models are cut. Patterns as
// DeepSpeed publishes them, so that a file means the same; what they find in a model is partition.hpp's.
#pragma once

#include <string_view>
#include <vector>

#include "config/sections/partition_config.hpp"

namespace troupe::job {

/// Of a name that the key table takes; nothing of others.
std::vector<config::layer_spec> preset_specs(std::string_view name);

}  // namespace troupe::job
