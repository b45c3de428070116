// Places of states that do not stay in device memory: tiers, the extents of swapped states in a rank's swap file, and
// the runs that hold a unit's slices. Owns these layouts and their arithmetic; the generator decides when bytes move,
// storage/ moves them. See docs/tiers.md.
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

/// On a machine without accelerators, device and cpu are the same memory and two columns of the ledger.
enum class tier : uint8_t { device, cpu, nvme };
inline constexpr uint32_t num_tiers = 3;
std::string_view name_of(tier t);  ///< `device`, `cpu`, `nvme`

/// Bytes that any offset, length and address of a swapped transfer is a multiple of.
inline constexpr uint64_t swap_page_bytes = 4096;

/// The tier of each kind of state, and how much memory the windows onto files get. Numbers, the same on all ranks.
struct tier_options {
  tier optimizer = tier::device;           ///< moments, and master weights that are not the parameters themselves
  tier parameters = tier::device;          ///< stage 3: own slices; with them fp32 masters
  bool swap_gradients = false;             ///< reduced gradients go to files too
  tier activations = tier::device;         ///< inputs of recomputed units between forward and backward
  uint32_t activation_units = 0xFFFFFFFF;  ///< how many recomputed units, from the first on
  uint32_t activation_slots = 2;           ///< nvme: windows of such inputs, at least 1
  double ratio = 1;                        ///< share of sub-groups that are offloaded: the last ones (Twin-Flow)
  uint32_t state_slots = 1;                ///< sub-groups in memory at a time, at least 1
  bool read_ahead = false;                 ///< the next sub-group is read while one is updated
  bool write_behind = false;               ///< the previous sub-group is written meanwhile
  uint32_t parameter_slots = 2;            ///< units whose slices are read ahead of their gathers, at least 1
  uint32_t gradient_slots = 2;             ///< buckets whose reduced gradients are on their way to a file
  uint64_t resident_parameters = 0;  ///< elements of this rank's slices that stay in memory as well, from unit 0 on
  /// Sub-groups have two places in the file: an update reads the valid one and writes the other, which becomes valid
  /// with the step unless that is skipped. So an update before the vote overwrites nothing.
  bool two_places = false;
  bool checksums = true;
  /// The device has memory of its own: what lies in other tiers is the host's, and the host updates it.
  bool apart = false;

  bool operator==(const tier_options&) const = default;
  /// Updates read and write memory of the host that is not the device's.
  [[nodiscard]] bool updates_on_host() const { return apart && optimizer != tier::device; }
  /// Updates on the host make weights that the device computes with.
  [[nodiscard]] bool weights_go_up() const { return updates_on_host() && parameters == tier::device; }
  /// Some states live in files.
  [[nodiscard]] bool swaps() const { return optimizer == tier::nvme || parameters == tier::nvme || swap_gradients; }
};

/// Parts of a block's extent, in their order there. It makes the parts that an update reads one transfer, and those
/// that it writes another.
enum class state_part : uint8_t { gradient, master, first_moment, second_moment, copy };
inline constexpr uint32_t num_state_parts = 5;
/// The bit of a part in swap_block::swapped.
constexpr uint8_t bit(state_part x) { return static_cast<uint8_t>(1U << static_cast<unsigned>(x)); }
/// The part of the first (0) or second (1) moment.
constexpr state_part moment_part(uint32_t which) {
  return static_cast<state_part>(static_cast<uint32_t>(state_part::first_moment) + which);
}

/// Elements of one parameter that this rank updates; `state_offset` is where its states lie in the rank's layout of
/// states, in elements.
struct owned_piece {
  uint32_t parameter = 0;
  slice range;
  uint64_t state_offset = 0;
  bool operator==(const owned_piece&) const = default;
};

/// A run of the rank's linear layout that is swapped as a whole: a sub-group, or frozen parameters.
struct swap_block {
  std::vector<owned_piece> pieces;
  uint64_t first = 0, elements = 0;         ///< of the linear layout; multiples of page_elements
  uint8_t swapped = 0;                      ///< bits of the parts that live in the file
  uint64_t file_offset = 0;                 ///< bytes; of the first swapped part
  uint64_t resident[num_state_parts] = {};  ///< elements: where parts that are not swapped begin in their pool
  bool frozen = false;
  bool operator==(const swap_block&) const = default;
  [[nodiscard]] bool holds(state_part x) const { return (swapped & bit(x)) != 0; }
};

/// Bytes [offset, offset + bytes) of a rank's swap file.
struct file_range {
  uint64_t offset = 0, bytes = 0;
  bool operator==(const file_range&) const = default;
};

/// A run of the linear layout in a window of a unit's slices; `slot` is where it begins there. In elements.
struct shard_run {
  uint64_t first = 0, count = 0, slot = 0;
  bool operator==(const shard_run&) const = default;
};

/// Elements of a page in the narrowest part: blocks, buckets and large parameters start at multiples of it, and no
/// smaller parameter lies across one.
uint64_t page_elements(const job_layout& l);
/// The type in which a part is kept.
core::dtype type_of(const job_layout& l, state_part x);
/// The part that gathers read: the master where the parameter is its own, else the copy.
state_part weights_part(const job_layout& l);
/// Element `first` of `parameter`, which this rank owns, in the rank's linear layout.
uint64_t linear_place(const rank_plan& p, uint32_t parameter, uint64_t first);
/// The block that holds an element of the linear layout; there is one. Plans that swap only.
const swap_block& block_at(const rank_plan& p, uint64_t linear);
/// Where a swapped part begins in its block's extent, in bytes: the end of the swapped parts before it.
uint64_t part_offset(const job_layout& l, const swap_block& b, state_part x);
/// Bytes of a block's extent, which are those of its window. Its states' second place, if any, comes behind it.
uint64_t extent_bytes(const job_layout& l, const swap_block& b);
/// By how many bytes the second place of a block's states lies behind the first; 0 where they have one place.
uint64_t second_place(const job_layout& l, const swap_block& b);
/// Bytes of the file that a block takes: its extent, and the second place of its states.
uint64_t file_bytes(const job_layout& l, const swap_block& b);
/// Where `count` elements of the linear layout, all of one block, lie in the file: in their place number `place`, 0 or
/// 1. Gradients have one place, and so have all parts of a block without a second one.
file_range range_of(const job_layout& l, const swap_block& b, state_part x, uint64_t linear, uint64_t count,
                    uint32_t place = 0);
/// The range that is read before the block's update, without gradients, since these were written in the same step;
/// empty if there is none.
file_range states_read(const job_layout& l, const swap_block& b, uint32_t place = 0);
/// The range that is written after it.
file_range states_written(const job_layout& l, const swap_block& b, uint32_t place = 0);

/// The runs that hold the slices of gather set `set` on `rank`, whose offsets are `at`; in order, their slots lie one
/// behind the other.
std::vector<shard_run> shard_runs(const job_layout& l, uint32_t set, uint32_t rank, const rank_offsets& at);
/// Of a plan's own rank.
std::vector<shard_run> shard_runs(const rank_plan& p, uint32_t set);
/// Elements of a window that holds all `runs`.
uint64_t window_elements(const std::vector<shard_run>& runs);
/// Where an element of the linear layout lies in a window of `runs`, which hold it. In elements.
uint64_t in_window(const std::vector<shard_run>& runs, uint64_t linear);

/// Fills `at.state`, `state_elements` and `bucket_begin` of `rank` where states are swapped, page by page. Needs
/// `state_runs`.
void lay_out_linear(const job_layout& l, uint32_t rank, rank_offsets& at);
/// Makes the blocks of `p`, with the parts that are swapped and their places; needs its offsets.
void make_swap_blocks(rank_plan& p);

}  // namespace troupe::plan
