// The pruning sections of `compression_training`: which elements, rows, heads and channels of which modules go, and
// when. Owns their form; masks are kernels/compress/weight_mask.hpp's arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/module_group.hpp"

namespace troupe::config {

/// What says which parts of a weight stay.
enum class pruning_method : uint8_t {
  l1,             ///< the size of the weights that the run starts with
  topk,           ///< scores that are learned
  snip_momentum,  ///< the size of weight times gradient, over the steps
};

struct pruned_group : module_group {  ///< of a technique of pruning
  double dense_ratio = 1;             ///< the share that stays
  /// Modules that are cut along with each pattern of `modules`, as patterns; empty: none.
  std::vector<std::vector<std::string>> related;
};

struct pruning_section {  ///< `compression_training.sparse_pruning`, `row_pruning`, `head_pruning`, `channel_pruning`
  bool enabled = false;
  pruning_method method = pruning_method::l1;
  uint64_t schedule_offset = 1000;            ///< updates before it begins
  std::optional<uint64_t> schedule_end = {};  ///< snip_momentum: the update of its last cut
  uint64_t schedule_stride = 1;               ///< snip_momentum: updates between two cuts
  std::optional<double> dense_ratio = {};     ///< snip_momentum: the share that stays; none: each group's own
  std::string block_pattern = "4x1";          ///< snip_momentum: rows x columns that stay or go together
  std::vector<std::string> excluded = {};     ///< snip_momentum: patterns of modules that stay whole
  std::optional<uint64_t> num_heads = {};     ///< of the model, where heads are pruned
  std::vector<pruned_group> groups = {};
  std::string where = {};  ///< of `enabled`
};

}  // namespace troupe::config
