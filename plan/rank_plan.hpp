// Owns one rank's part of one optimizer step, made before the step runs: instructions, buffers, and the offsets of the
// rank's own elements. A rank_plan is immutable once generated; actors, simulator, checker and tools read the same
// object. The part that all ranks share is in job_layout.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/instruction.hpp"
#include "plan/job_layout.hpp"
#include "plan/tiers.hpp"

namespace troupe::plan {

/// The pools of a rank. Each pool is one allocation, sized by the plan. The first `num_pools` pools are cut into slots.
/// Of these, the pools from `states` on hold windows onto swap files: for the states of sub-groups, the slices of
/// units, reduced gradients, and the inputs of units (which may also remain in their windows until backward). The other
/// pools hold states from step to step, undo copies, votes or norms.
enum class pool : uint8_t {
  gathered,
  buckets,
  directions,
  staging,
  transfers,
  compressed,
  states,
  shards,
  reduced,
  activations,
  parameters,
  near_copies,
  master,
  moments,
  accumulated,
  undo,
  votes,
  norms
};
inline constexpr uint32_t num_pools = 10, num_owners = 18;

/// Sizes in bytes of a rank's memory pools.
struct pool_sizes {
  uint64_t bytes[num_pools] = {};
  [[nodiscard]] uint64_t of(pool k) const { return bytes[static_cast<size_t>(k)]; }
};

/// A slot: bytes [offset, offset + bytes) of a pool, in use from the start of instruction `first` to the end of
/// instruction `last`.
struct buffer {
  plan::pool pool = pool::gathered;
  uint64_t offset = 0, bytes = 0;
  uint32_t subject = none;             ///< index of what the slot holds: a gather set, bucket, matrix set, snapshot
                                       ///< block, sub-group, unit or tie, depending on the pool
  uint32_t first = none, last = none;  ///< ids of the first and of the last instruction that use the slot
};

/// Sentinel of undo_offset: the sub-group has no undo copy, because it is updated after the vote.
inline constexpr uint64_t no_undo = ~uint64_t{0};

/// The elements that the optimizer updates in one instruction `update`.
struct sub_group {
  std::vector<owned_piece> pieces;
  uint64_t elements = 0;
  update_need need = update_need::elements;  ///< need of the parameter of the group that needs most
  uint32_t matrices = none;                  ///< index of the matrix set, for a sub-group whose need is whole_matrix;
                                             ///< else none
};

/// The values of saved_piece::part: which data of its parameter a saved piece holds. The number of a moment (0 or 1) is
/// added to saved_moment.
inline constexpr uint32_t saved_weights = 0, saved_frozen = 1, saved_moment = 2;

/// Elements of one parameter's weights or moment in a snapshot; `offset` in bytes from the block's start.
struct saved_piece {
  uint32_t parameter = 0;
  uint32_t part = saved_weights;
  slice range;
  uint64_t offset = 0;
  bool operator==(const saved_piece&) const = default;
};

/// Neighbouring pieces of this rank's file of a checkpoint, copied and written together. Gaps between pieces are zero.
struct snapshot_block {
  std::vector<saved_piece> pieces;
  uint64_t file_offset = 0, bytes = 0;
  bool frozen = false;  ///< true if the block holds frozen parameters, which a save may leave out
  bool operator==(const snapshot_block&) const = default;
};

/// Resident bytes of one rank by owner. docs/numerics.md has the formulas.
struct memory_table {
  uint64_t parameters = 0;   ///< bytes of parameters: full (stages 0 to 2) or own slices (stage 3)
  uint64_t near_copies = 0;  ///< bytes of this rank's part of the second copy of parameters, at stage 3
  uint64_t gathered = 0;     ///< bytes of the pool of gathered parameters, at stage 3
  uint64_t master = 0;       ///< bytes of fp32 master weights; 0 if parameters are their own masters
  uint64_t moments = 0;
  uint64_t gradients = 0;              ///< bytes of the pool of gradient buckets
  uint64_t accumulated = 0;            ///< bytes of reduced gradients that are stored outside of the buckets
  uint64_t activations = 0;            ///< predicted bytes of activations saved for backward
  uint64_t offloaded_activations = 0;  ///< bytes of the pool in host memory for units' inputs until their backward
  uint64_t directions = 0;             ///< bytes of the pool of whole update directions
  uint64_t votes = 0;                  ///< bytes of the vote: square sums per block, and losses
  uint64_t transfers = 0;              ///< bytes of the pool of activations and gradients between pipeline stages
  uint64_t compressed = 0;             ///< bytes of the pool of compressed parameters, which units multiply with
  uint64_t masks = 0;                  ///< bytes of masks of pruned parameters in the units that the rank computes
  uint64_t staging = 0;                ///< bytes of copies of states that a checkpoint is written from
  uint64_t windows = 0;                ///< bytes of the windows through which swap files are read and written
  uint64_t digests = 0;                ///< bytes of digests of the pages of swap files
  uint64_t swapped = 0;                ///< bytes in swap files; no memory, and not part of any sum
  uint64_t undo = 0;  ///< bytes of undo copies: the bytes that speculative updates overwrite, copied and kept until the
                      ///< vote
  uint64_t deferred = 0;  ///< bytes of gradients that are deferred to later updates
  [[nodiscard]] uint64_t total() const {
    return parameters + near_copies + gathered + master + moments + gradients + accumulated + activations +
           offloaded_activations + directions + votes + transfers + compressed + masks + staging + windows + digests +
           undo + deferred;
  }
  /// Bytes that a host budget covers: parameters, gradients, optimizer states and staging, without activations,
  /// transfers and votes.
  [[nodiscard]] uint64_t states() const { return total() - activations - offloaded_activations - transfers - votes; }
};

/// The plan of one rank for one step.
struct rank_plan {
  std::shared_ptr<const job_layout> layout;
  uint32_t rank = 0;

  std::vector<instruction> instructions;     ///< instructions of the rank in a valid serial order of the step
  std::vector<std::vector<uint32_t>> lanes;  ///< [lane]: ids of the lane's instructions in order
  std::vector<buffer> buffers;
  uint64_t pool_bytes[num_pools] = {};
  std::vector<uint32_t> num_collectives;  ///< [communicator]: number of the communicator's collectives in this step
  std::vector<uint32_t> bucket_buffer;  ///< [bucket * accumulation + micro]: index of the bucket's buffer in `buffers`
  /// [bucket]: index in `buffers` of the window that holds its final sums until they are in the swap file; none: no
  /// window.
  std::vector<uint32_t> bucket_window;

  rank_offsets offsets;
  std::vector<sub_group> sub_groups;
  /// [sub-group]: offset of its undo copy, in bytes; no_undo if the sub-group does not speculate
  std::vector<uint64_t> undo_offset;
  uint64_t undo_bytes = 0;  ///< bytes of all undo copies
  /// Blocks of the swap file, if states are swapped: one per sub-group, then the blocks of frozen parameters.
  std::vector<swap_block> blocks;
  std::vector<file_range> activation_extents;  ///< [activation_extent()]: extent of a unit's input in the swap file
  uint64_t swap_file_bytes = 0;
  std::vector<snapshot_block> snapshots;  ///< plans that save: blocks of the rank's checkpoint file, in order
  /// [state_part]: number of elements of that part, over all swap blocks, that stay in memory and not in the swap file
  uint64_t resident_elements[num_state_parts] = {};
  /// [moment][parameter]: offset in this rank's first, second or third moments, in elements
  std::vector<uint64_t> moment_offset[max_moments];
  uint64_t moment_elements[max_moments] = {};
  /// [stage]: the most micro-batches whose activations this rank holds at a time; 0: the stage is computed by another
  /// rank.
  std::vector<uint32_t> micros_in_flight;
  /// [stage]: the most micro-batches between the input part and the weight part of a split backward at a time.
  std::vector<uint32_t> weights_in_flight;
  memory_table memory;
  uint64_t peak_live_elements = 0;  ///< largest number of gathered elements at a time

  [[nodiscard]] const plan_options& options() const { return layout->options; }
  [[nodiscard]] const core::model_table& table() const { return *layout->table; }
  /// True if sub-group `g` is updated before the vote; the update is undone if the step is skipped or clipped.
  [[nodiscard]] bool speculates(uint32_t g) const { return undo_offset[g] != no_undo; }
  /// The elements of `parameter` whose states this rank keeps.
  [[nodiscard]] slice own_states(uint32_t parameter) const { return layout->state_slice(parameter, rank); }
  /// Returns the text that errors, traces and tables print for an instruction, such as "gather block 3, micro 0,
  /// backward".
  [[nodiscard]] std::string describe(uint32_t id) const;
};

/// The plans of all ranks for one step, in rank order.
using rank_plans = std::span<const std::shared_ptr<const rank_plan>>;

}  // namespace troupe::plan
