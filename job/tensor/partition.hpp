// What `tensor_parallel.partition_config` and `preset_model` mean for a family's model: which halves of its blocks are
// cut, and whether its vocabulary is. Owns the matching of names and its refusals; the form of the section is
// config/sections/partition_config.hpp's, widths are models/table/tp_split.hpp's.
#pragma once

#include <string_view>
#include <vector>

#include "config/sections/partition_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::job {

/// What says of a parameter that it is cut, or that it is not.
enum class cut_origin : uint8_t { family, config, preset, host };
/// "family", "config", "preset", "host"
std::string_view name_of(cut_origin origin);

struct named_split {  ///< a split, and what says it
  models::tensor_split split;
  std::vector<cut_origin> origins;  ///< [parameter]
};

/// The split that the section's specs describe; `whole` is the family's table without cuts, `model_type` its family's
/// name. Refused (bad_input), with the place of the spec: layers of one half of a block of which some are cut, styles
/// and shapes other than the family computes with, gather_output within a block, a layer without spec under
/// strict_mode, specs that cut nothing.
core::result<named_split> split_of(const config::tensor_parallel_section& section, const core::model_table& whole,
                                   std::string_view model_type, uint32_t degree);

}  // namespace troupe::job
