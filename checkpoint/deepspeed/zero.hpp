// The optimizer shards of one model-parallel rank, ZeRO stages 1 to 3 and BF16_Optimizer: from flat groups to masters
// and moments by name. Owns the layouts of the flat groups.
#pragma once

#include <vector>

#include "checkpoint/deepspeed/flat.hpp"
#include "checkpoint/deepspeed/lists.hpp"
#include "checkpoint/native/manifest.hpp"
#include "checkpoint/torch/archive.hpp"

namespace troupe::checkpoint {

class zero_shards {
 public:
  /// `ranks` shards will come.
  explicit zero_shards(size_t ranks) : ranks_(ranks) {}

  /// The shard of the next data-parallel rank, which is file number `number`. Refused: what is no shard, another
  /// stage than the first one's, another number of partitions than ranks.
  core::result<void> add(const torch_archive& file, uint32_t number);

  /// Adds master and moments of each parameter. Refused where the shapes do not fill the flat groups.
  core::result<void> place(const std::vector<named_shapes>& groups, std::vector<tensor_entry>& out) const;

  [[nodiscard]] int64_t stage() const { return stage_; }

 private:
  core::result<void> add_group(const torch_archive& file, uint32_t number, flat_states& to, pickle_ref master,
                               std::optional<pickle_ref> moments);
  core::result<void> place_striped(const named_shapes& shapes, std::vector<tensor_entry>& out) const;
  core::result<void> place_flat(const named_shapes& shapes, size_t group, std::vector<tensor_entry>& out) const;

  size_t ranks_, seen_ = 0;
  int64_t stage_ = 0;
  /// Stages 1 and 2: by group, the ranks one behind the other. Stage 3: by rank, its sub-groups likewise.
  std::vector<flat_states> flat_;
  std::vector<std::vector<uint64_t>> gaps_;  ///< by group, elements behind each parameter (newer DeepSpeed)
};

}  // namespace troupe::checkpoint
