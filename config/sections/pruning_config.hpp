// The pruning sections of `compression_training`: which elements, rows, heads and channels of which modules are
// removed, and when. Owns the form of the sections; kernels/compress/weight_mask.hpp computes masks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/module_group.hpp"

namespace troupe::config {

/// Criterion that chooses which parts of a weight are kept.
enum class pruning_method : uint8_t {
  l1,             ///< parts with the largest magnitude of weights at the start of the run are kept
  topk,           ///< parts with the largest learned scores are kept
  snip_momentum,  ///< parts with the largest magnitude of weight times gradient, accumulated over steps, are kept
};

struct pruned_group : module_group {  ///< a group of modules that one pruning technique treats alike
  double dense_ratio = 1;             ///< share of the elements, rows, heads or channels that pruning keeps
  /// [pattern of `modules`]: patterns of the modules from which the same rows, heads or channels are removed; empty:
  /// none.
  std::vector<std::vector<std::string>> related;
};

struct pruning_section {  ///< section `sparse_pruning`, `row_pruning`, `head_pruning` or `channel_pruning`
  bool enabled = false;
  pruning_method method = pruning_method::l1;
  uint64_t schedule_offset = 1000;            ///< number of applied updates before pruning begins
  /// Snip_momentum: number of applied updates at which the mask changes for the last time.
  std::optional<uint64_t> schedule_end = {};
  uint64_t schedule_stride = 1;            ///< snip_momentum: number of applied updates between two changes of the mask
  std::optional<double> dense_ratio = {};  ///< snip_momentum: fraction kept in the end; nullopt: each group's
  std::string block_pattern = "4x1";          ///< snip_momentum: rows x columns that are kept or removed together
  std::vector<std::string> excluded = {};     ///< snip_momentum: patterns of modules that are not pruned
  std::optional<uint64_t> num_heads = {};     ///< number of the model's heads, if heads are pruned
  std::vector<pruned_group> groups = {};
  std::string where = {};  ///< file and line of `enabled`
};

}  // namespace troupe::config
