// DeepSpeed's presets of `tensor_parallel.preset_model`: which layers of a model family are split. The patterns are
// those that DeepSpeed publishes, so that a file has the same meaning; partition.hpp matches them with a model.
#pragma once

#include <string_view>
#include <vector>

#include "config/sections/partition_config.hpp"

namespace troupe::job {

/// Returns the specs of a preset that the key table accepts; an empty list for any other name.
std::vector<config::layer_spec> preset_specs(std::string_view name);

}  // namespace troupe::job
