// One rank's part of one optimizer step, before it is done: instructions, buffers, and where its own elements lie.
// Immutable once generated; actors, simulator, checker and tools read the same object. The part that all ranks share is
// in job_layout.hpp.
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

/// The pools of a rank. Each is one allocation, sized by the plan. The first `num_pools` are cut into slots; of these,
/// those from `states` on are windows onto swap files: of sub-groups' states, of units' slices, of reduced gradients,
/// of units' inputs, which may also stay in theirs. The others hold states from step to step, or votes and norms.
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

/// Bytes of a rank's pools.
struct pool_sizes {
  uint64_t bytes[num_pools] = {};
  [[nodiscard]] uint64_t of(pool k) const { return bytes[static_cast<size_t>(k)]; }
};

/// A slot: bytes [offset, offset + bytes) of a pool, from the start of `first` to the end of `last`.
struct buffer {
  plan::pool pool = pool::gathered;
  uint64_t offset = 0, bytes = 0;
  uint32_t subject = none;             ///< gather set, bucket, matrix set, snapshot block, sub-group, unit or tie
  uint32_t first = none, last = none;  ///< instructions that open and close its life
};

/// Sentinel of undo_offset: no undo copy, because the sub-group is updated after the vote.
inline constexpr uint64_t no_undo = ~uint64_t{0};

/// The elements that the optimizer updates in one instruction.
struct sub_group {
  std::vector<owned_piece> pieces;
  uint64_t elements = 0;
  update_need need = update_need::elements;  ///< the greatest of its parameters'
  uint32_t matrices = none;                  ///< whole_matrix: its matrix set
};

/// Which part of its parameter a saved piece is. A moment's number is added.
inline constexpr uint32_t saved_weights = 0, saved_frozen = 1, saved_moment = 2;

/// Elements of one parameter's weights or moment in a snapshot; `offset` in bytes from the block's start.
struct saved_piece {
  uint32_t parameter = 0;
  uint32_t part = saved_weights;
  slice range;
  uint64_t offset = 0;
  bool operator==(const saved_piece&) const = default;
};

/// Neighbours in this rank's file of a checkpoint, copied and written as one; between pieces lie zeros.
struct snapshot_block {
  std::vector<saved_piece> pieces;
  uint64_t file_offset = 0, bytes = 0;
  bool frozen = false;  ///< of frozen parameters, which a save may leave out
  bool operator==(const snapshot_block&) const = default;
};

/// Resident bytes of one rank by owner: docs/numerics.md has the formulas.
struct memory_table {
  uint64_t parameters = 0;   ///< full (stages 0 to 2) or own slices (stage 3), parameter dtype
  uint64_t near_copies = 0;  ///< stage 3: this rank's part of the second copy of parameters
  uint64_t gathered = 0;     ///< stage 3: the pool of gathered parameters
  uint64_t master = 0;       ///< fp32 master weights; 0 where the parameter is its own master
  uint64_t moments = 0;
  uint64_t gradients = 0;              ///< the pool of buckets
  uint64_t accumulated = 0;            ///< reduced gradients kept apart from the buckets
  uint64_t activations = 0;            ///< predicted: saved for backward
  uint64_t offloaded_activations = 0;  ///< the pool of units' inputs that wait on the host for backward
  uint64_t directions = 0;             ///< the pool of whole update directions
  uint64_t votes = 0;                  ///< square sums per block, losses
  uint64_t transfers = 0;              ///< the pool of activations and gradients between a pipeline's stages
  uint64_t compressed = 0;             ///< the pool of what units multiply with instead of their compressed parameters
  uint64_t masks = 0;                  ///< of pruned parameters of units that the rank computes
  uint64_t staging = 0;                ///< copies on their way into a checkpoint
  uint64_t windows = 0;                ///< onto swap files: states, slices and gradients on their way
  uint64_t digests = 0;                ///< of the pages of swap files
  uint64_t swapped = 0;                ///< in files: no memory, and not part of any sum
  uint64_t undo = 0;                   ///< copies of data that speculative updates overwrite, until the vote
  uint64_t deferred = 0;               ///< gradients that are deferred to later updates
  [[nodiscard]] uint64_t total() const {
    return parameters + near_copies + gathered + master + moments + gradients + accumulated + activations +
           offloaded_activations + directions + votes + transfers + compressed + masks + staging + windows + digests +
           undo + deferred;
  }
  /// The bytes that a host budget covers: parameters, gradients, optimizer states, staging; no activations, no votes.
  [[nodiscard]] uint64_t states() const { return total() - activations - offloaded_activations - transfers - votes; }
};

struct rank_plan {  ///< one rank's step
  std::shared_ptr<const job_layout> layout;
  uint32_t rank = 0;

  std::vector<instruction> instructions;     ///< a valid serial order of the step
  std::vector<std::vector<uint32_t>> lanes;  ///< [lane]: ids in order
  std::vector<buffer> buffers;
  uint64_t pool_bytes[num_pools] = {};
  std::vector<uint32_t> num_collectives;  ///< [communicator]: of this step
  std::vector<uint32_t> bucket_buffer;    ///< [bucket * accumulation + micro]: index in buffers
  std::vector<uint32_t> bucket_window;    ///< [bucket]: in buffers: where its last sums wait for a file; none: nowhere

  rank_offsets offsets;
  std::vector<sub_group> sub_groups;
  std::vector<uint64_t> undo_offset;  ///< [sub-group]: of its undo copy, in bytes; no_undo where not speculated
  uint64_t undo_bytes = 0;            ///< of all undo copies
  std::vector<swap_block> blocks;     ///< if something is swapped: one per sub-group, then the frozen ones
  std::vector<file_range> activation_extents;  ///< [activation_extent]: of a unit's input in the swap file
  uint64_t swap_file_bytes = 0;
  std::vector<snapshot_block> snapshots;             ///< plans that save: in the order of the file
  uint64_t resident_elements[num_state_parts] = {};  ///< of blocks, in the pools of parts that are not swapped
  std::vector<uint64_t> moment_offset[max_moments];  ///< [parameter]: in this rank's first, second moments
  uint64_t moment_elements[max_moments] = {};
  std::vector<uint32_t>
      micros_in_flight;  ///< [stage]: micro-batches whose activations it holds at most; 0: not its own
  std::vector<uint32_t> weights_in_flight;  ///< [stage]: those between the two parts of a split backward at most
  memory_table memory;
  uint64_t peak_live_elements = 0;  ///< of gathered parameters

  [[nodiscard]] const plan_options& options() const { return layout->options; }
  [[nodiscard]] const core::model_table& table() const { return *layout->table; }
  /// Sub-group `g` is updated before the vote, and the update undone if the step is skipped or clipped.
  [[nodiscard]] bool speculates(uint32_t g) const { return undo_offset[g] != no_undo; }
  /// The elements of `parameter` that this rank keeps states of.
  [[nodiscard]] slice own_states(uint32_t parameter) const { return layout->state_slice(parameter, rank); }
  /// "gather block 3, micro 0, backward": how errors, traces and tables name an instruction.
  [[nodiscard]] std::string describe(uint32_t id) const;
};

/// The plans of all ranks of one step, in rank order.
using rank_plans = std::span<const std::shared_ptr<const rank_plan>>;

}  // namespace troupe::plan
