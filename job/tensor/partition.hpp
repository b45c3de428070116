// Applies `tensor_parallel.partition_config` and `preset_model` to a family's model: which halves of its blocks
// (attention, MLP) are split, and whether its vocabulary is. Owns the matching of names and its refusals;
// config/sections/partition_config.hpp owns the form of the section, models/table/tp_split.hpp the widths.
#pragma once

#include <string_view>
#include <vector>

#include "config/sections/partition_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::job {

/// Source of the decision whether a parameter is split: the model family, the configuration, a preset or the host
/// program.
enum class cut_origin : uint8_t { family, config, preset, host };
/// Returns "family", "config", "preset" or "host".
std::string_view name_of(cut_origin origin);

struct named_split {  ///< a split of a model over tensor ranks, and the source of each decision in it
  models::tensor_split split;
  std::vector<cut_origin> origins;  ///< [parameter]: source of the decision whether it is split
};

/// Returns the split that the section's specs describe; `whole` is the family's table without cuts, `model_type` the
/// name of its family. Refused (bad_input), with file and line of the spec, or the key of its preset: layers of one
/// half (attention or MLP) of a block of which only some are split, styles and shapes that differ from the family's
/// computation, gather_output within a block, a layer without spec under strict_mode, specs that split nothing.
core::result<named_split> split_of(const config::tensor_parallel_section& section, const core::model_table& whole,
                                   std::string_view model_type, uint32_t degree);

}  // namespace troupe::job
