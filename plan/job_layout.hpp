// Owns the part of a step's plans that all ranks share: options, model, owners of elements, parameters that move
// together. One job_layout object serves all plans of a job for one kind of step; it is immutable once made. One rank's
// own part is in rank_plan.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/model_table.hpp"
#include "plan/instruction.hpp"
#include "plan/options.hpp"
#include "plan/partition.hpp"
#include "plan/tiers.hpp"

namespace troupe::plan {

/// A parameter of a set; `offset` is its first element, in elements from the set's start. Offsets are 64-byte aligned.
struct placement {
  uint32_t parameter = 0;
  uint64_t offset = 0;
  bool operator==(const placement&) const = default;
};

/// Parameters that move together: a gather set (of one unit, or the persistent parameters), a bucket, a matrix set or a
/// publish set.
struct parameter_set {
  std::string name;
  std::vector<placement> parameters;
  uint64_t elements = 0;  ///< number of elements of the set, including gaps
  uint64_t numel = 0;     ///< number of elements of the set, without gaps
  uint32_t pipeline = 0;  ///< pipeline coordinate of the ranks that hold the set
  /// True for a bucket whose gradients are also summed over the ranks of a tensor group; a bucket has only such
  /// gradients or none.
  bool over_tensor = false;
  bool operator==(const parameter_set&) const = default;
};

/// A group of ranks that run collectives together. All members run the communicator's collectives in the same order
/// (instruction::sequence), which is independent of other communicators. The number of a communicator is its index in
/// `job_layout::communicators`, the number of a member its index in `members`.
struct communicator {
  std::string name;               ///< name of the communicator for display, such as "data" or "stages 0 and 1"
  std::vector<uint32_t> members;  ///< ranks of the communicator, ascending
  bool operator==(const communicator&) const = default;
};

/// The uses of a tied parameter whose gradients are added once a step: first the original, then its copies in the order
/// of units.
struct tied_uses {
  std::vector<uint32_t> parameters;
  bool operator==(const tied_uses&) const = default;
};

/// The exchange of gradients of one tied parameter between the ranks of two pipeline coordinates; each rank exchanges
/// with the rank whose other coordinates are equal to its own.
struct tie_exchange {
  uint32_t tie = 0;
  uint32_t pipeline[2] = {};  ///< two pipeline coordinates that read a tied parameter, the lower one first
  uint32_t gives[2] = {};     ///< [side]: the parameter whose gradient this side sends; none: the side only receives
  bool operator==(const tie_exchange&) const = default;
};

/// Offsets of one rank's slices and states in memory, in elements. Indexed by parameter unless a member has another
/// index.
struct rank_offsets {
  std::vector<uint64_t> shard;  ///< [parameter]: offset of the rank's slice of the parameter among all slices of
                                ///< the rank, in elements
  std::vector<uint64_t> state;  ///< [parameter]: offset in the rank's master weights and reduced gradients, in elements
  /// [gather set]: offset of the set's parameters in the rank's part of the second copy, in elements
  std::vector<uint64_t> near;
  uint64_t shard_elements = 0, state_elements = 0, near_elements = 0;
  std::vector<uint64_t> bucket_begin;  ///< if states are swapped, [bucket]: index of its first element in the linear
                                       ///< layout (a rank's states in one sequence); one more entry: the end
  bool operator==(const rank_offsets&) const = default;
};

/// Bytes of the header that follows the elements of a transfer between stages: type, shape and strides of the tensor.
inline constexpr uint64_t transfer_header_bytes = 128;

/// The part of the plans that all ranks share, for one kind of step (plan::mode).
struct job_layout {
  plan_options options;
  std::shared_ptr<const core::model_table> table;
  plan::partition partition;
  plan::partition near_partition;  ///< partition of the second copy of parameters (hpZ); empty if there is none
  std::vector<communicator> communicators;
  std::vector<uint32_t> stage_of_unit;  ///< [unit]: pipeline stage of the unit
  std::vector<uint32_t> pipeline_of;    ///< [parameter]: pipeline coordinate of the ranks that hold the parameter

  /// [unit]: gather set of the unit; then, for each pipeline coordinate, the set of the parameters that are gathered
  /// for the whole step.
  std::vector<parameter_set> gather_sets;
  std::vector<parameter_set> compressed;  ///< [unit]: parameters that the unit reads in compressed form
  std::vector<parameter_set> buckets;     ///< gradient buckets in order of completion; empty in plans that do not train
  std::vector<parameter_set> matrix_sets;  ///< sets of parameters whose updates need whole matrices
  std::vector<parameter_set> publish_sets;
  /// if states are swapped: sets of parameters whose states follow each other in the linear layout of every rank (the
  /// rank's states in one sequence, which its swap file stores)
  std::vector<parameter_set> state_runs;
  std::vector<bool> cached;         ///< [gather set]: true if slices in the swap file are in memory as well
  std::vector<bool> persistent;     ///< [parameter]: true if the parameter is gathered for the whole step
  std::vector<uint32_t> bucket_of;  ///< [parameter]: bucket of its gradient; none if the parameter is frozen
  /// [bucket]: micro-batches in the order in which they complete the bucket's gradients. Empty if every bucket has
  /// them in ascending order.
  std::vector<std::vector<uint32_t>> bucket_order;
  /// [parameter]: position, among matrix_ranks() (matrices.hpp), of the rank that orthogonalises the matrix; none: no
  /// rank does
  std::vector<uint32_t> matrix_owner;
  /// [parameter]: offset, in elements, in the full layout: the sequence of all whole parameters of a pipeline
  /// coordinate.
  std::vector<uint64_t> full_offset;
  std::vector<uint64_t> full_elements;  ///< [pipeline coordinate]: number of elements of its full layout, gaps included
  /// [parameter]: index of its first square sum in the vote; a tied copy has the index of its original.
  std::vector<uint64_t> block_offset;
  uint64_t num_blocks = 0;
  std::vector<tied_uses> ties;   ///< uses of each trained parameter that has copies
  std::vector<uint32_t> tie_of;  ///< [parameter]: index in `ties`; none if the parameter is not tied, or frozen
  /// exchanges that bring the gradients of all uses of a tied parameter to each rank that holds one of these uses
  std::vector<tie_exchange> exchanges;

  /// Elements of the slot for a unit's compressed parameters: the parameters plus the largest scratch space that one of
  /// them needs.
  [[nodiscard]] uint64_t compressed_elements(uint32_t unit) const {
    return compressed[unit].elements + options.compressed.room_elements(unit);
  }
  /// True if the ranks of a tensor group hold different elements of the parameter.
  [[nodiscard]] bool is_cut(uint32_t parameter) const {
    return table->parameters[parameter].share == core::tensor_share::cut;
  }
  /// True if the parameter is replicated over the tensor group and its gradient is summed over the group.
  [[nodiscard]] bool is_summed(uint32_t parameter) const {
    return options.mesh.tensor_ranks() > 1 && table->parameters[parameter].share == core::tensor_share::summed;
  }
  [[nodiscard]] bool holds(uint32_t rank, uint32_t parameter) const {
    return pipeline_of[parameter] == options.mesh.pipeline_at(rank);
  }
  /// The elements of `parameter` that `rank` owns; empty if the rank does not hold the parameter.
  [[nodiscard]] slice slice_of(uint32_t parameter, uint32_t rank) const {
    return holds(rank, parameter) ? partition.of(parameter, options.shard_at(rank)) : slice{};
  }
  [[nodiscard]] bool gathers() const { return options.stage == 3; }
  /// The gather set of the parameters of `rank` that are gathered for the whole step; the set may be empty.
  [[nodiscard]] uint32_t persistent_set(uint32_t rank) const {
    return static_cast<uint32_t>(table->units.size()) + options.mesh.pipeline_at(rank);
  }
  /// True if the slices of gather set `set` are read from a file before they are gathered.
  [[nodiscard]] bool reads_shards(uint32_t set) const {
    return options.tiers.parameters == tier::nvme && !cached[set] && gather_sets[set].numel > 0;
  }
  [[nodiscard]] bool swaps_gradients() const { return options.tiers.swap_gradients && !options.reduces_in_place(); }
  [[nodiscard]] bool trains(uint32_t parameter) const { return table->parameters[parameter].trainable; }
  [[nodiscard]] bool is_copy(uint32_t parameter) const { return table->parameters[parameter].is_copy(); }
  [[nodiscard]] bool is_of_teacher(uint32_t parameter) const { return table->parameters[parameter].of_teacher; }
  /// Returns the tie of a bucket's only parameter; none if that parameter is not tied.
  [[nodiscard]] uint32_t tie_of_bucket(uint32_t bucket) const {
    return tie_of[buckets[bucket].parameters.front().parameter];
  }
  /// The micro-batch that is the n-th of the step to complete its gradients in `bucket`, counted from 0. Sums begin
  /// with the first one and are complete with the last. No other code may derive the first or the last from a
  /// micro-batch's number.
  [[nodiscard]] uint32_t nth_micro(uint32_t bucket, uint32_t n) const {
    return bucket_order.empty() ? n : bucket_order[bucket][n];
  }
  [[nodiscard]] uint32_t first_micro(uint32_t bucket) const { return nth_micro(bucket, 0); }
  [[nodiscard]] uint32_t last_micro(uint32_t bucket) const { return nth_micro(bucket, options.accumulation - 1); }
  /// Returns the values that the optimizer reads for `parameter`; `elements` if the parameter is frozen.
  [[nodiscard]] update_need need_of(uint32_t parameter) const {
    return trains(parameter) ? options.update_of(parameter).need : update_need::elements;
  }
  /// Returns the elements of `parameter` for which `rank` stores optimizer states.
  [[nodiscard]] slice state_slice(uint32_t parameter, uint32_t rank) const {
    if (!trains(parameter)) return {};
    if (!options.updates_all()) return slice_of(parameter, rank);
    return holds(rank, parameter) ? slice{0, table->parameters[parameter].numel()} : slice{};
  }
};

}  // namespace troupe::plan
