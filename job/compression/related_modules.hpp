// Modules that go with one that is pruned: which of those that a group's `related_modules` finds is whose. Owns the
// pairing; what is cut out of them is job/compression/clean.hpp's.
#pragma once

#include <span>
#include <vector>

#include "job/compression/pruning.hpp"

namespace troupe::job {

/// Where a module that goes with another may stand.
enum class pairing_reach : uint8_t {
  unit,   ///< beside it: blocks of a family are alike
  model,  ///< a host's units may be single modules
};

/// Of `m`, one of `chosen`, by the patterns of its group `g`: those in its unit, else of the whole model. Where a
/// pattern finds as many modules as are pruned they are paired in order, one of these has all that are found. Refused
/// (bad_input), with file, line and key: a pattern that finds none, and one by which it is not clear whose they are.
core::result<std::vector<const core::layer_info*>> related_layers(const pruned_module& m, const config::pruned_group& g,
                                                                  std::span<const pruned_module> chosen,
                                                                  const core::model_table& table, pairing_reach reach);

/// "compression_training.row_pruning.different_groups.mlp.related_modules"
std::string related_key(const pruned_module& m);

}  // namespace troupe::job
