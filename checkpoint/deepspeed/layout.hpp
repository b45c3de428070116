// How DeepSpeed's ZeRO cuts parameters over ranks: pure arithmetic of flat groups, partitions and sub-groups. Owns the
// rules of alignment and padding; what is written by them is deepspeed_writer's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::checkpoint {

/// Elements [first, first + count) of parameter number `parameter` of a group; no_parameter: padding.
struct flat_stretch {
  static constexpr uint32_t no_parameter = 0xFFFFFFFF;
  uint32_t parameter = 0;
  uint64_t first = 0, count = 0;
  bool operator==(const flat_stretch&) const = default;
};

/// What one rank holds of a group at stages 1 and 2: the group's parameters end to end, padded once to a multiple of
/// 2 * ranks, cut into equal partitions.
struct group_partition {
  uint64_t elements = 0;                ///< with padding; always even
  uint64_t padding = 0;                 ///< of these, the last ones
  std::vector<flat_stretch> stretches;  ///< without padding, none empty
};
group_partition partition_of_group(std::span<const uint64_t> numels, uint32_t ranks, uint32_t rank);

/// Elements that every rank holds of a parameter at stage 3: rank r has [r * s, r * s + s) of it, padded beyond its
/// end.
uint64_t rank_elements(uint64_t numel, uint32_t ranks);

/// Stage 3 cuts a group into sub-groups: parameter numbers, in order. One sub-group where all ranks' pieces are at most
/// `sub_group_size` elements; else the parameter that reaches it closes a sub-group.
std::vector<std::vector<uint32_t>> sub_groups_of(std::span<const uint64_t> numels, uint32_t ranks,
                                                 uint64_t sub_group_size);

/// What one rank holds of the parameters `of` at stage 3, padding between them.
std::vector<flat_stretch> pieces_of_sub_group(std::span<const uint64_t> numels, std::span<const uint32_t> of,
                                              uint32_t ranks, uint32_t rank);

/// Elements of all stretches.
uint64_t elements_of(std::span<const flat_stretch> stretches);

}  // namespace troupe::checkpoint
