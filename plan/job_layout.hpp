// Owns the part of a step's plans that all ranks share: options, model, owners of elements, parameters that move
// together. One job_layout object serves all plans of a job for one kind of step; it is immutable once made. One rank's
// own part is in rank_plan.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/math.hpp"
#include "core/model_table.hpp"
#include "core/sequence_columns.hpp"
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
  /// Buckets: true if the gradients of all parameters of the set are summed over the ranks of a tensor group, too;
  /// false if those of none are.
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
  /// [bucket]: micro-batches in the order in which they complete the bucket's gradients. Empty if that is the order of
  /// their numbers for all buckets.
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
    uint64_t room = 0;
    for (const auto& x : options.compressed.weights)
      if (x.unit == unit) room = std::max(room, x.room_elements);
    return compressed[unit].elements + room;
  }
  /// Bytes of the value ranges that a rank sends to its tensor group before the first use of a unit in a step: the
  /// ranges of the compressed groups, parameter after parameter, two f64 per range. 0: the unit has no ranges to send.
  [[nodiscard]] uint64_t range_bytes(uint32_t unit) const {
    uint64_t ranges = 0;
    for (const auto& x : options.compressed.weights)
      if (x.unit == unit) ranges += x.ranges;
    return core::round_up(ranges * 2 * sizeof(double), core::input_alignment);
  }
  /// True if the value ranges of the unit's compressed groups are exchanged twice in a step.
  [[nodiscard]] bool tells_twice(uint32_t unit) const {
    return std::ranges::any_of(options.compressed.weights,
                               [&](const compressed_use& x) { return x.unit == unit && x.told_twice; });
  }
  [[nodiscard]] uint32_t num_stages() const { return stage_of_unit.empty() ? 1 : stage_of_unit.back() + 1; }
  /// Returns the pipeline coordinate of the ranks that compute a stage.
  [[nodiscard]] uint32_t pipeline_of_stage(uint32_t stage) const {
    return options.pipeline.first_unit.empty() ? 0 : options.pipeline.table.rank_of_stage[stage];
  }
  /// Returns the pipeline coordinate of the ranks that compute a unit.
  [[nodiscard]] uint32_t pipeline_of_unit(uint32_t unit) const { return pipeline_of_stage(stage_of_unit[unit]); }
  /// Returns the first unit of the model itself. The units before it are the teacher's and have no backward.
  [[nodiscard]] uint32_t first_of_model() const { return table->teacher_units; }
  /// True if a step of the layout's mode computes the unit.
  [[nodiscard]] bool runs(uint32_t unit) const { return options.mode == mode::train || unit >= first_of_model(); }
  [[nodiscard]] bool begins_stage(uint32_t unit) const {
    return unit == 0 || unit == first_of_model() || stage_of_unit[unit - 1] != stage_of_unit[unit];
  }
  /// Returns the first unit of a stage that has segments, without the teacher's units.
  [[nodiscard]] uint32_t first_computing(uint32_t stage) const {
    uint32_t u = options.pipeline.first_unit.empty() ? first_of_model() : options.pipeline.first_unit[stage];
    while (u + 1 < table->units.size() && table->units[u].segments.empty()) ++u;
    return u;
  }
  /// Returns the last unit of a stage that has segments.
  [[nodiscard]] uint32_t last_computing(uint32_t stage) const {
    const auto& first = options.pipeline.first_unit;
    auto u = static_cast<uint32_t>(table->units.size());
    if (stage + 1 < first.size()) u = first[stage + 1];
    --u;
    while (u > 0 && table->units[u].segments.empty()) --u;
    return u;
  }
  /// Returns the first unit that the forward of a stage computes: a unit of the teacher if the step runs one in this
  /// stage.
  [[nodiscard]] uint32_t first_forward(uint32_t stage) const {
    for (uint32_t u = 0; u < first_of_model() && runs(u); ++u)
      if (stage_of_unit[u] == stage && !table->units[u].segments.empty()) return u;
    return first_computing(stage);
  }
  /// True if the teacher's hidden state and the distillation loss so far are sent to the next stage together with the
  /// activation.
  [[nodiscard]] bool carries_teacher() const { return options.mode == mode::train && first_of_model() > 0; }
  /// Bytes of the activation that enters stage `later` (forward), or of its gradient, with a header for each of its
  /// tensors.
  [[nodiscard]] uint64_t transfer_bytes(uint32_t later, use way = use::backward) const {
    const core::unit_info& unit = table->units[first_computing(later)];
    const uint64_t own =
        core::round_up(unit.input_bytes, core::input_alignment) + unit.input_tensors * transfer_header_bytes;
    if (way != use::forward || !carries_teacher()) return own;
    const uint64_t lost_bytes = core::input_alignment;  // bytes of the loss: one double, aligned
    return own + core::round_up(table->teacher_bytes, core::input_alignment) + lost_bytes + 2 * transfer_header_bytes;
  }
  [[nodiscard]] bool computes(uint32_t rank, uint32_t unit) const {
    return pipeline_of_unit(unit) == pipeline_at(rank);
  }
  [[nodiscard]] uint32_t pipeline_at(uint32_t rank) const {
    return options.mesh.coordinate_of(rank, core::axis::pipeline);
  }
  [[nodiscard]] uint32_t tensor_ranks() const { return options.mesh.degree(core::axis::tensor); }
  [[nodiscard]] uint32_t tensor_at(uint32_t rank) const { return options.mesh.coordinate_of(rank, core::axis::tensor); }
  /// True if the ranks of a tensor group hold different elements of the parameter.
  [[nodiscard]] bool is_cut(uint32_t parameter) const {
    return table->parameters[parameter].share == core::tensor_share::cut;
  }
  /// True if the parameter is replicated over the tensor group and its gradient is summed over the group.
  [[nodiscard]] bool is_summed(uint32_t parameter) const {
    return tensor_ranks() > 1 && table->parameters[parameter].share == core::tensor_share::summed;
  }
  /// Returns the exchange between tensor or sequence ranks that follows a segment: of its output (forward), or of the
  /// gradient of its input (backward).
  [[nodiscard]] const core::segment_exchange& exchange_of(uint32_t unit, uint32_t segment, use way) const {
    const core::segment_info& s = table->units[unit].segments[segment];
    return way == use::forward ? s.output : s.input_gradient;
  }
  /// Number of ranks that take part in exchange `x`; 1: there is nothing to exchange.
  [[nodiscard]] uint32_t exchanging_ranks(const core::segment_exchange& x) const {
    if (x.op == core::exchange_op::none) return 1;
    return x.is_of_tensor_group() ? tensor_ranks() : options.sequence_ranks();
  }
  /// Returns the bytes that every rank of the group has received or computed when exchange `x` is done.
  [[nodiscard]] uint64_t exchanged_bytes(const core::segment_exchange& x) const {
    return x.bytes * (x.op == core::exchange_op::sum ? 1 : exchanging_ranks(x));
  }
  /// Number of pieces of rows into which exchange `x` and the matrix product before it are divided; 1: they are whole.
  [[nodiscard]] uint32_t pieces_of(const core::segment_exchange& x) const {
    if (x.rows == 0 || exchanging_ranks(x) == 1 || options.mode == mode::generate) return 1;
    return static_cast<uint32_t>(std::min<uint64_t>(options.exchange_pieces, x.rows));
  }
  /// Rows of piece `piece` of exchange `x`. If a shorter micro-batch has fewer rows, the piece ends with the tensor.
  [[nodiscard]] slice rows_of_piece(const core::segment_exchange& x, uint32_t piece) const {
    const uint64_t first = x.rows * piece / pieces_of(x);
    return {first, x.rows * (piece + 1) / pieces_of(x) - first};
  }
  /// Bytes that one piece of exchange `x` moves; the pieces add up to exchanged_bytes.
  [[nodiscard]] uint64_t piece_bytes(const core::segment_exchange& x, uint32_t piece) const {
    return pieces_of(x) == 1 ? exchanged_bytes(x) : rows_of_piece(x, piece).count * (x.bytes / x.rows);
  }
  /// Byte offset of a rank's own input in the slot of exchange `x`; 0 if the exchange is in place.
  [[nodiscard]] uint64_t given_at(const core::segment_exchange& x) const {
    if (x.op == core::exchange_op::swap) return exchanged_bytes(x);
    return x.op == core::exchange_op::scatter ? x.bytes : 0;
  }
  /// Bytes of the slot of exchange `x`, with a header after the elements as in a transfer.
  [[nodiscard]] uint64_t exchange_slot_bytes(const core::segment_exchange& x) const {
    return core::round_up(given_at(x) + exchanged_bytes(x), core::input_alignment) + transfer_header_bytes;
  }
  /// Position of `rank` among the ranks that process different tokens. Ranks that differ only in their stage have the
  /// same position.
  [[nodiscard]] uint32_t data_at(uint32_t rank) const {
    const auto& m = options.mesh;
    return (m.coordinate_of(rank, core::axis::replicate) * m.degree(core::axis::shard) +
            m.coordinate_of(rank, core::axis::shard)) *
               options.sequence_ranks() +
           sequence_at(rank);
  }
  /// Position of `rank` among the ranks that process different samples.
  [[nodiscard]] uint32_t samples_at(uint32_t rank) const { return data_at(rank) / options.sequence_ranks(); }
  /// Returns the order in which the columns (token positions) of a sample are distributed over the ranks of a sequence
  /// group.
  [[nodiscard]] core::column_order column_order() const {
    return options.mesh.degree(core::axis::context) > 1 ? core::column_order::two_ended
                                                        : core::column_order::neighbours;
  }
  /// Position of `rank` in its sequence group, whose ranks process different tokens of the same samples.
  [[nodiscard]] uint32_t sequence_at(uint32_t rank) const { return options.mesh.position(rank, core::sequence_axes); }
  /// Position of `rank` among the ranks over which the states of a parameter are divided.
  [[nodiscard]] uint32_t shard_at(uint32_t rank) const {
    return options.mesh.degree(core::axis::replicate) == 1 ? data_at(rank) : data_at(rank) % options.shards();
  }
  /// Index of the copy of the states that `rank` holds a shard of. The ranks of the first copy report values that are
  /// equal in all copies.
  [[nodiscard]] uint32_t replica_at(uint32_t rank) const { return data_at(rank) / options.shards(); }
  [[nodiscard]] bool holds(uint32_t rank, uint32_t parameter) const {
    return pipeline_of[parameter] == pipeline_at(rank);
  }
  /// The elements of `parameter` that `rank` owns; empty if the rank does not hold the parameter.
  [[nodiscard]] slice slice_of(uint32_t parameter, uint32_t rank) const {
    return holds(rank, parameter) ? partition.of(parameter, shard_at(rank)) : slice{};
  }

  /// The elements of `parameter` that `rank` keeps in the second copy of parameters (hpZ); empty for a parameter that
  /// is gathered for the whole step.
  [[nodiscard]] slice near_slice(uint32_t parameter, uint32_t rank) const {
    if (!options.has_near_copies() || persistent[parameter] || !holds(rank, parameter)) return {};
    return near_partition.of(parameter, shard_at(rank) % options.gathering.near);
  }

  /// Number of layers whose input ranges (least and largest element) are exchanged in the vote; 0 unless the step
  /// trains.
  [[nodiscard]] uint64_t calibrated() const {
    return options.mode == mode::train ? options.compressed.calibrated.size() : 0;
  }
  /// Number of doubles in the vote: the square sums of all blocks; then, for each data coordinate, the losses of its
  /// micro-batches; then, for each rank of a stage and each layer of compression_options::calibrated, the least and the
  /// largest element of the layer's input.
  [[nodiscard]] uint64_t vote_elements() const {
    return loss_offset(options.data(), 0) + 2 * calibrated() * options.data() * tensor_ranks();
  }
  /// Offset, in doubles of the vote, of the input range (least and largest element) that `rank` has measured for the
  /// layer at index `k` of compression_options::calibrated.
  [[nodiscard]] uint64_t range_offset(uint32_t rank, uint64_t k) const {
    const uint64_t place = uint64_t{data_at(rank)} * tensor_ranks() + tensor_at(rank);
    return loss_offset(options.data(), 0) + 2 * (place * calibrated() + k);
  }
  /// Offset, in doubles of the vote, of the loss of data position `data` in micro-batch `micro`.
  [[nodiscard]] uint64_t loss_offset(uint32_t data, uint32_t micro) const {
    return num_blocks + uint64_t{data} * options.accumulation + micro;
  }
  [[nodiscard]] bool gathers() const { return options.stage == 3; }
  /// The gather set of the parameters of `rank` that are gathered for the whole step; the set may be empty.
  [[nodiscard]] uint32_t persistent_set(uint32_t rank) const {
    return static_cast<uint32_t>(table->units.size()) + pipeline_at(rank);
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
  /// True if the vote contains the square sums of the bucket. False for a tied copy, whose original has the sums.
  [[nodiscard]] bool is_voted_on(uint32_t bucket) const {
    return !is_copy(buckets[bucket].parameters.front().parameter);
  }
  /// Number of blocks (core::partition_grain elements) of the part of `parameter` that one rank of a tensor group
  /// holds.
  [[nodiscard]] uint64_t blocks_each(uint32_t parameter) const {
    return core::div_up(table->parameters[parameter].numel(), core::partition_grain);
  }
  /// Index, among the square sums in the vote, of the first one of the elements of `parameter` that `rank`'s tensor
  /// coordinate holds. The vote has one square sum for each block of core::partition_grain elements.
  [[nodiscard]] uint64_t first_block(uint32_t parameter, uint32_t rank) const {
    return block_offset[parameter] + (is_cut(parameter) ? tensor_at(rank) * blocks_each(parameter) : 0);
  }
  /// Number of square sums of `parameter` in the vote, one for each block of core::partition_grain elements, over all
  /// ranks of a tensor group.
  [[nodiscard]] uint64_t blocks_of(uint32_t parameter) const;
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
  /// Number of doubles that `measure` exchanges: square sums per block of weights, then of update directions. 0 if no
  /// parameter needs norms.
  [[nodiscard]] uint64_t measured_elements() const;
  /// Returns the elements of `parameter` for which `rank` stores optimizer states.
  [[nodiscard]] slice state_slice(uint32_t parameter, uint32_t rank) const {
    if (!trains(parameter)) return {};
    if (!options.updates_all()) return slice_of(parameter, rank);
    return holds(rank, parameter) ? slice{0, table->parameters[parameter].numel()} : slice{};
  }
};

}  // namespace troupe::plan
