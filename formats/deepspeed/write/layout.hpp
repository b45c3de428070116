// Computes how DeepSpeed's ZeRO cuts parameters over ranks: flat groups, partitions and sub-groups. Owns the rules of
// alignment and padding; leaves the writing to writer.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::formats {

/// Elements [first, first + count) of parameter number `parameter` of a group; no_parameter: padding.
struct flat_stretch {
  static constexpr uint32_t no_parameter = 0xFFFFFFFF;
  uint32_t parameter = 0;
  uint64_t first = 0, count = 0;
  bool operator==(const flat_stretch&) const = default;
};

/// One rank's part of a group at stages 1 and 2: the group's parameters end to end, padded once to a multiple of 2 *
/// ranks and cut into equal partitions.
struct group_partition {
  uint64_t elements = 0;                ///< number of elements of the partition with padding; always even
  uint64_t padding = 0;                 ///< number of padding elements at the end of the partition
  std::vector<flat_stretch> stretches;  ///< stretches of the rank's elements without padding; no stretch is empty
};
group_partition partition_of_group(std::span<const uint64_t> numels, uint32_t ranks, uint32_t rank);

/// Returns the number s of elements that every rank holds of a parameter at stage 3: rank r has [r * s, r * s + s) of
/// it, with padding beyond its end.
uint64_t rank_elements(uint64_t numel, uint32_t ranks);

/// Cuts a group into the sub-groups of stage 3: lists of parameter numbers, in order. One sub-group if the pieces of
/// all parameters together have at most `sub_group_size` elements on a rank; else the parameter that reaches this size
/// closes a sub-group.
std::vector<std::vector<uint32_t>> sub_groups_of(std::span<const uint64_t> numels, uint32_t ranks,
                                                 uint64_t sub_group_size);

/// Returns one rank's stretches of the parameters `of` at stage 3, with padding between them.
std::vector<flat_stretch> pieces_of_sub_group(std::span<const uint64_t> numels, std::span<const uint32_t> of,
                                              uint32_t ranks, uint32_t rank);

/// Returns the number of elements of all stretches.
uint64_t elements_of(std::span<const flat_stretch> stretches);

}  // namespace troupe::formats
