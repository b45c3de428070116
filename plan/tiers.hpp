// Owns the places of states that do not stay in device memory: tiers, the extents of swapped states in a rank's swap
// file, the runs that hold a unit's slices, and the arithmetic of these layouts. The generator decides when bytes move,
// and storage/ moves them. See docs/tiers.md.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "plan/partition.hpp"

namespace troupe::plan {

struct job_layout;
struct rank_offsets;
struct rank_plan;

/// The memory that holds a kind of state. On a machine without accelerators, device and cpu are the same memory, and
/// are only counted separately.
enum class tier : uint8_t { device, cpu, nvme };
inline constexpr uint32_t num_tiers = 3;
std::string_view name_of(tier t);  ///< Returns the name of a tier: `device`, `cpu`, `nvme`.

/// Alignment in bytes of every offset, length and address of a transfer to or from a swap file.
inline constexpr uint64_t swap_page_bytes = 4096;

/// The tier of each kind of state, and the sizes of the windows onto files. The values are equal on all ranks.
struct tier_options {
  tier optimizer = tier::device;    ///< tier of moments, and of master weights that are not the parameters themselves
  tier parameters = tier::device;   ///< tier of own parameter slices at stage 3, with their fp32 masters
  bool swap_gradients = false;      ///< true: reduced gradients are stored in files between reduction and update
  tier activations = tier::device;  ///< tier of the inputs of recomputed units between forward and backward
  uint32_t activation_units = 0xFFFFFFFF;  ///< number of recomputed units that are offloaded, from the first on
  uint32_t activation_slots = 2;           ///< number of windows for the inputs of recomputed units on nvme, at least 1
  double ratio = 1;              ///< fraction of the sub-groups that is offloaded; the last ones are (Twin-Flow)
  uint32_t state_slots = 1;      ///< number of sub-groups whose states are in memory at a time, at least 1
  bool read_ahead = false;       ///< true: the next sub-group is read while one is updated
  bool write_behind = false;     ///< true: the previous sub-group is written while the next one is updated
  uint32_t parameter_slots = 2;  ///< number of units whose slices are read ahead of their gathers, at least 1
  uint32_t gradient_slots = 2;   ///< number of windows for buckets whose reduced gradients are being written to a file
  /// Number of elements of this rank's slices that are cached in memory as well as in its swap file, from unit 0 on.
  uint64_t resident_parameters = 0;
  /// True: each state has two places in the swap file. An update reads the valid place and writes the other one, which
  /// becomes valid with the step unless the step is skipped. An update before the vote therefore overwrites nothing.
  bool two_places = false;
  bool checksums = true;
  /// True: the device has memory of its own. Data in the other tiers are in host memory, and the host updates them.
  bool apart = false;

  bool operator==(const tier_options&) const = default;
  /// True if updates read and write host memory that is not the device's.
  [[nodiscard]] bool updates_on_host() const { return apart && optimizer != tier::device; }
  /// True if updates on the host make weights that the device computes with.
  [[nodiscard]] bool weights_go_up() const { return updates_on_host() && parameters == tier::device; }
  /// True if some states are stored in files.
  [[nodiscard]] bool swaps() const { return optimizer == tier::nvme || parameters == tier::nvme || swap_gradients; }
};

/// Parts of a block's extent, in their order in the file. In this order the parts that an update reads are one
/// transfer, and the parts that it writes are one transfer.
enum class state_part : uint8_t { gradient, master, first_moment, second_moment, third_moment, copy };
inline constexpr uint32_t num_state_parts = 6;
/// Returns the bit of a part in swap_block::swapped.
constexpr uint8_t bit(state_part x) { return static_cast<uint8_t>(1U << static_cast<unsigned>(x)); }
/// Returns the part of the first (0), second (1) or third (2) moment.
constexpr state_part moment_part(uint32_t which) {
  return static_cast<state_part>(static_cast<uint32_t>(state_part::first_moment) + which);
}
/// Returns the number of the moment that `part` is, which must be one.
constexpr uint32_t moment_of(state_part part) {
  return static_cast<uint32_t>(part) - static_cast<uint32_t>(state_part::first_moment);
}
/// True if the part is a moment.
constexpr bool is_moment(state_part part) {
  return part >= state_part::first_moment && part <= state_part::third_moment;
}

/// Elements of one parameter that this rank updates. `state_offset` is the offset of their states in the rank's layout
/// of states, in elements.
struct owned_piece {
  uint32_t parameter = 0;
  slice range;
  uint64_t state_offset = 0;
  bool operator==(const owned_piece&) const = default;
};

/// A run of the rank's linear layout (its states in one sequence) that is swapped as a whole: a sub-group, or frozen
/// parameters.
struct swap_block {
  std::vector<owned_piece> pieces;
  /// Index of the block's first element in the linear layout, and number of elements; multiples of page_elements().
  uint64_t first = 0, elements = 0;
  uint8_t swapped = 0;       ///< bits of the state parts that are stored in the swap file
  uint64_t file_offset = 0;  ///< offset of the first swapped part in the swap file, in bytes
  /// [state_part]: for a part that is not swapped, the offset of its elements in the pool of that part, in elements.
  uint64_t resident[num_state_parts] = {};
  bool frozen = false;
  bool operator==(const swap_block&) const = default;
  [[nodiscard]] bool holds(state_part x) const { return (swapped & bit(x)) != 0; }
};

/// A range of bytes [offset, offset + bytes) in a rank's swap file.
struct file_range {
  uint64_t offset = 0, bytes = 0;
  bool operator==(const file_range&) const = default;
};

/// A run of the linear layout in a window of a unit's slices; `slot` is its offset in the window. In elements.
struct shard_run {
  uint64_t first = 0, count = 0, slot = 0;
  bool operator==(const shard_run&) const = default;
};

/// Number of elements of a page of the part with the narrowest dtype. Blocks, buckets and large parameters start at
/// multiples of this number, and no smaller parameter crosses such a multiple.
uint64_t page_elements(const job_layout& l);
/// Returns the dtype in which a part of the states is stored.
core::dtype type_of(const job_layout& l, state_part x);
/// Returns the part from which all-gathers read parameters: the master weights if these are the parameters themselves
/// (plan_options::master_is_parameter), else the copy in the parameters' dtype.
state_part weights_part(const job_layout& l);
/// Returns the offset of element `first` of `parameter`, which this rank owns, in the rank's linear layout.
uint64_t linear_place(const rank_plan& p, uint32_t parameter, uint64_t first);
/// Returns the swap block that holds element `linear` of the linear layout. Requires a plan that swaps states.
const swap_block& block_at(const rank_plan& p, uint64_t linear);
/// Offset of a swapped part in its block's extent, in bytes: the end of the swapped parts before it.
uint64_t part_offset(const job_layout& l, const swap_block& b, state_part x);
/// Bytes of a block's extent and of its window. The second place of the block's states, if any, follows the extent.
uint64_t extent_bytes(const job_layout& l, const swap_block& b);
/// Distance in bytes from the first to the second place of a block's states; 0 if they have one place.
uint64_t second_place(const job_layout& l, const swap_block& b);
/// Returns the bytes of the swap file that a block occupies: its extent, and the second place of its states.
uint64_t file_bytes(const job_layout& l, const swap_block& b);
/// Returns the bytes of the swap file that hold `count` elements of the linear layout, all of one block, in place
/// number `place`, 0 or 1. Gradients have one place, and so have all parts of a block without a second place.
file_range range_of(const job_layout& l, const swap_block& b, state_part x, uint64_t linear, uint64_t count,
                    uint32_t place = 0);
/// Returns the range of the swap file that is read before the block's update; empty if nothing is read. Gradients are
/// not in the range: an update reads them separately, because the same step writes them.
file_range states_read(const job_layout& l, const swap_block& b, uint32_t place = 0);
/// Returns the range of the swap file that is written after the block's update.
file_range states_written(const job_layout& l, const swap_block& b, uint32_t place = 0);

/// Returns the runs that hold the slices of gather set `set` on `rank`, whose offsets are `at`. The runs are in order,
/// and their slots are contiguous.
std::vector<shard_run> shard_runs(const job_layout& l, uint32_t set, uint32_t rank, const rank_offsets& at);
/// Returns the runs that hold the slices of gather set `set` on the plan's own rank.
std::vector<shard_run> shard_runs(const rank_plan& p, uint32_t set);
/// Returns the number of elements of a window that holds all `runs`.
uint64_t window_elements(const std::vector<shard_run>& runs);
/// Offset of element `linear` of the linear layout in a window of `runs`, which contain it. In elements.
uint64_t in_window(const std::vector<shard_run>& runs, uint64_t linear);

/// Computes `at.state`, `state_elements` and `bucket_begin` of `rank` if states are swapped, page by page. Requires
/// `state_runs`.
void lay_out_linear(const job_layout& l, uint32_t rank, rank_offsets& at);
/// Makes the blocks of `p`, with the parts that are swapped and their offsets in the swap file. Requires the plan's
/// offsets.
void make_swap_blocks(rank_plan& p);

}  // namespace troupe::plan
