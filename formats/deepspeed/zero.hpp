// Reads the optimizer shards of one model-parallel rank, of ZeRO stages 1 to 3 and BF16_Optimizer, and splits their
// flat groups into masters and moments by name. Owns the layouts of the flat groups.
#pragma once

#include <vector>

#include "formats/deepspeed/flat.hpp"
#include "formats/deepspeed/lists.hpp"
#include "formats/deepspeed/optimizer_steps.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::formats {

class zero_shards {
 public:
  /// Creates a reader for the optimizer shards of `ranks` data-parallel ranks.
  explicit zero_shards(size_t ranks) : ranks_(ranks) {}

  /// Adds the shard of the next data-parallel rank, which is file number `number`, and its step counters to `steps`.
  /// Refused: a file that is not a shard, another stage than the first shard's, another number of partitions than
  /// ranks, counters that `steps` refuses.
  core::result<void> add(const torch_archive& file, uint32_t number, optimizer_steps& steps);

  /// Adds master and moments of each parameter to `out`. Refused if the shapes do not fill the flat groups.
  core::result<void> place(const std::vector<named_shapes>& groups, std::vector<tensor_entry>& out) const;

  [[nodiscard]] int64_t stage() const { return stage_; }

 private:
  core::result<void> add_group(const torch_archive& file, uint32_t number, flat_states& to, pickle_ref master,
                               std::optional<pickle_ref> moments);
  core::result<void> place_striped(const named_shapes& shapes, std::vector<tensor_entry>& out) const;
  core::result<void> place_flat(const named_shapes& shapes, size_t group, std::vector<tensor_entry>& out) const;

  size_t ranks_, seen_ = 0;
  int64_t stage_ = 0;
  /// Flat data of the shards. Stages 1 and 2: one element for each group, with the data of all ranks end to end. Stage
  /// 3: one element for each rank, with the data of its sub-groups end to end.
  std::vector<flat_states> flat_;
  /// [group]: number of padding elements after each parameter (newer DeepSpeed)
  std::vector<std::vector<uint64_t>> gaps_;
};

}  // namespace troupe::formats
