// The part of a step's plans that all ranks share: options, model, owners of elements, parameters that move together.
// One object for all plans of a job and a kind of step; immutable once made. One rank's own part is in rank_plan.hpp.
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

/// A parameter inside a set, `offset` in elements from the set's start. Starts are 64-byte aligned.
struct placement {
  uint32_t parameter = 0;
  uint64_t offset = 0;
  bool operator==(const placement&) const = default;
};

/// Parameters that move together: a gather set (a unit's, or the persistent ones), a bucket, a matrix set, a publish
/// set.
struct parameter_set {
  std::string name;
  std::vector<placement> parameters;
  uint64_t elements = 0;  ///< including gaps
  uint64_t numel = 0;     ///< without gaps
  uint32_t pipeline = 0;  ///< coordinate of the ranks that hold it
  /// Of a bucket: what ranks of a tensor group form are summands, too. All parameters of a set are alike in this.
  bool over_tensor = false;
  bool operator==(const parameter_set&) const = default;
};

/// Ranks that meet: in one order, whose positions are theirs alone. A communicator's number is its place in
/// `job_layout::communicators`, a member's its place among the members.
struct communicator {
  std::string name;               ///< "data", "stages 0 and 1" ...: for people
  std::vector<uint32_t> members;  ///< ranks, ascending
  bool operator==(const communicator&) const = default;
};

/// The uses of a tied parameter whose gradients are added once a step: the original, then its copies, in the order of
/// units.
struct tied_uses {
  std::vector<uint32_t> parameters;
  bool operator==(const tied_uses&) const = default;
};

/// What the ranks of two pipeline coordinates that differ in nothing else tell each other of a tie.
struct tie_exchange {
  uint32_t tie = 0;
  uint32_t pipeline[2] = {};  ///< the lower one first
  uint32_t gives[2] = {};     ///< the parameter whose gradient each gives; none: it only takes
  bool operator==(const tie_exchange&) const = default;
};

/// Where one rank's slices and states lie in memory, in elements. [parameter]
struct rank_offsets {
  std::vector<uint64_t> shard;  ///< in its slice layout
  std::vector<uint64_t> state;  ///< in its master weights and reduced gradients
  std::vector<uint64_t> near;   ///< [gather set]: in the second copy; its parameters lie behind each other
  uint64_t shard_elements = 0, state_elements = 0, near_elements = 0;
  std::vector<uint64_t> bucket_begin;  ///< [bucket], and the end: where states are swapped
  bool operator==(const rank_offsets&) const = default;
};

/// What crosses between stages describes itself: its type, its shape and its strides, behind its elements.
inline constexpr uint64_t transfer_header_bytes = 128;

struct job_layout {  ///< of one kind of step
  plan_options options;
  std::shared_ptr<const core::model_table> table;
  plan::partition partition;
  plan::partition near_partition;  ///< of the second copy; of no parameters where there is none
  std::vector<communicator> communicators;
  std::vector<uint32_t> stage_of_unit;  ///< [unit]: the stage of the pipeline that it lies in
  std::vector<uint32_t> pipeline_of;    ///< [parameter]: coordinate of the ranks that hold it

  std::vector<parameter_set> gather_sets;  ///< one per unit, then the persistent set of each pipeline coordinate
  std::vector<parameter_set> compressed;   ///< [unit]: parameters that it multiplies with as compression makes them
  std::vector<parameter_set> buckets;      ///< in order of completion; none in plans that do not train
  std::vector<parameter_set> matrix_sets;  ///< parameters whose updates need whole matrices
  std::vector<parameter_set> publish_sets;
  std::vector<parameter_set> state_runs;  ///< where states are swapped: neighbours in every rank's linear layout
  std::vector<bool> cached;               ///< [gather set]: swapped slices that stay in memory as well
  std::vector<bool> persistent;           ///< [parameter]
  std::vector<uint32_t> bucket_of;        ///< [parameter]; none where frozen
  /// [bucket]: micro-batches in the order in which its gradients are whole; empty: everywhere as they are numbered.
  std::vector<std::vector<uint32_t>> bucket_order;
  std::vector<uint32_t> matrix_owner;   ///< [parameter]: who orthogonalises it (matrices.hpp); none: no rank does
  std::vector<uint64_t> full_offset;    ///< [parameter]: in the full layout of the ranks that hold it, elements
  std::vector<uint64_t> full_elements;  ///< [pipeline coordinate]
  std::vector<uint64_t> block_offset;   ///< [parameter]: first block in the vote; a copy's is its original's
  uint64_t num_blocks = 0;
  std::vector<tied_uses> ties;          ///< trained parameters with copies
  std::vector<uint32_t> tie_of;         ///< [parameter]; none: it is not tied, or frozen
  std::vector<tie_exchange> exchanges;  ///< so that each rank that holds a use of a tie knows all of them

  /// Of a unit's slot of compressed parameters: these, and the most room that one of them takes meanwhile.
  [[nodiscard]] uint64_t compressed_elements(uint32_t unit) const {
    uint64_t room = 0;
    for (const auto& x : options.compressed.weights)
      if (x.unit == unit) room = std::max(room, x.room_elements);
    return compressed[unit].elements + room;
  }
  /// What a rank tells its tensor group before the first use of a unit in a step: the ranges of each parameter's groups
  /// behind each other, two f64 each; 0: nothing.
  [[nodiscard]] uint64_t range_bytes(uint32_t unit) const {
    uint64_t ranges = 0;
    for (const auto& x : options.compressed.weights)
      if (x.unit == unit) ranges += x.ranges;
    return core::round_up(ranges * 2 * sizeof(double), core::input_alignment);
  }
  /// Whether it then tells once more.
  [[nodiscard]] bool tells_twice(uint32_t unit) const {
    return std::ranges::any_of(options.compressed.weights,
                               [&](const compressed_use& x) { return x.unit == unit && x.told_twice; });
  }
  [[nodiscard]] uint32_t num_stages() const { return stage_of_unit.empty() ? 1 : stage_of_unit.back() + 1; }
  /// Pipeline coordinate of the ranks that compute a stage.
  [[nodiscard]] uint32_t pipeline_of_stage(uint32_t stage) const {
    return options.pipeline.first_unit.empty() ? 0 : options.pipeline.table.rank_of_stage[stage];
  }
  /// The same of a unit.
  [[nodiscard]] uint32_t pipeline_of_unit(uint32_t unit) const { return pipeline_of_stage(stage_of_unit[unit]); }
  /// The first unit of the model itself: those before it are its teacher's, which have no backward.
  [[nodiscard]] uint32_t first_of_model() const { return table->teacher_units; }
  /// Whether a step of this mode runs the unit.
  [[nodiscard]] bool runs(uint32_t unit) const { return options.mode == mode::train || unit >= first_of_model(); }
  [[nodiscard]] bool begins_stage(uint32_t unit) const {
    return unit == 0 || unit == first_of_model() || stage_of_unit[unit - 1] != stage_of_unit[unit];
  }
  /// The first unit of a stage that has segments, of the model itself.
  [[nodiscard]] uint32_t first_computing(uint32_t stage) const {
    uint32_t u = options.pipeline.first_unit.empty() ? first_of_model() : options.pipeline.first_unit[stage];
    while (u + 1 < table->units.size() && table->units[u].segments.empty()) ++u;
    return u;
  }
  /// The last one.
  [[nodiscard]] uint32_t last_computing(uint32_t stage) const {
    const auto& first = options.pipeline.first_unit;
    auto u = static_cast<uint32_t>(table->units.size());
    if (stage + 1 < first.size()) u = first[stage + 1];
    --u;
    while (u > 0 && table->units[u].segments.empty()) --u;
    return u;
  }
  /// The first unit of a stage that its forward computes: the teacher's, where a step runs any of it there.
  [[nodiscard]] uint32_t first_forward(uint32_t stage) const {
    for (uint32_t u = 0; u < first_of_model() && runs(u); ++u)
      if (stage_of_unit[u] == stage && !table->units[u].segments.empty()) return u;
    return first_computing(stage);
  }
  /// Whether the teacher's hidden state, and what was lost to lessons so far, cross into the next stage as well.
  [[nodiscard]] bool carries_teacher() const { return options.mode == mode::train && first_of_model() > 0; }
  /// Of an activation into stage `later`, or of its gradient, with a header for each of its tensors behind it.
  [[nodiscard]] uint64_t transfer_bytes(uint32_t later, use way = use::backward) const {
    const core::unit_info& unit = table->units[first_computing(later)];
    const uint64_t own =
        core::round_up(unit.input_bytes, core::input_alignment) + unit.input_tensors * transfer_header_bytes;
    if (way != use::forward || !carries_teacher()) return own;
    const uint64_t lost_bytes = core::input_alignment;  // a double
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
  /// Ranks of a tensor group have different elements of it.
  [[nodiscard]] bool is_cut(uint32_t parameter) const {
    return table->parameters[parameter].share == core::tensor_share::cut;
  }
  /// They have the same elements, and its gradient is the sum of theirs.
  [[nodiscard]] bool is_summed(uint32_t parameter) const {
    return tensor_ranks() > 1 && table->parameters[parameter].share == core::tensor_share::summed;
  }
  /// What is exchanged behind a segment, one way or the other.
  [[nodiscard]] const core::segment_exchange& exchange_of(uint32_t unit, uint32_t segment, use way) const {
    const core::segment_info& s = table->units[unit].segments[segment];
    return way == use::forward ? s.output : s.input_gradient;
  }
  /// Ranks that take part in it; 1: there is nothing to exchange.
  [[nodiscard]] uint32_t exchanging_ranks(const core::segment_exchange& x) const {
    if (x.op == core::exchange_op::none) return 1;
    return x.is_of_tensor_group() ? tensor_ranks() : options.sequence_ranks();
  }
  /// Bytes that all ranks of the group have in the end.
  [[nodiscard]] uint64_t exchanged_bytes(const core::segment_exchange& x) const {
    return x.bytes * (x.op == core::exchange_op::sum ? 1 : exchanging_ranks(x));
  }
  /// Pieces of rows that the product in front of it is worked in, and it itself with that; 1: at once.
  [[nodiscard]] uint32_t pieces_of(const core::segment_exchange& x) const {
    if (x.rows == 0 || exchanging_ranks(x) == 1 || options.mode == mode::generate) return 1;
    return static_cast<uint32_t>(std::min<uint64_t>(options.exchange_pieces, x.rows));
  }
  /// The rows of one of them; of more than the tensor has in a shorter micro-batch, those that it has.
  [[nodiscard]] slice rows_of_piece(const core::segment_exchange& x, uint32_t piece) const {
    const uint64_t first = x.rows * piece / pieces_of(x);
    return {first, x.rows * (piece + 1) / pieces_of(x) - first};
  }
  /// Of exchanged_bytes, what one piece moves.
  [[nodiscard]] uint64_t piece_bytes(const core::segment_exchange& x, uint32_t piece) const {
    return pieces_of(x) == 1 ? exchanged_bytes(x) : rows_of_piece(x, piece).count * (x.bytes / x.rows);
  }
  /// Where in the slot lies what this rank gives, if what it gets is not made in its place.
  [[nodiscard]] uint64_t given_at(const core::segment_exchange& x) const {
    if (x.op == core::exchange_op::swap) return exchanged_bytes(x);
    return x.op == core::exchange_op::scatter ? x.bytes : 0;
  }
  /// Of the slot, with a header behind as a transfer's has.
  [[nodiscard]] uint64_t exchange_slot_bytes(const core::segment_exchange& x) const {
    return core::round_up(given_at(x) + exchanged_bytes(x), core::input_alignment) + transfer_header_bytes;
  }
  /// Position of `rank` among those that take different tokens: ranks of other stages are at the same one.
  [[nodiscard]] uint32_t data_at(uint32_t rank) const {
    const auto& m = options.mesh;
    return (m.coordinate_of(rank, core::axis::replicate) * m.degree(core::axis::shard) +
            m.coordinate_of(rank, core::axis::shard)) *
               options.sequence_ranks() +
           sequence_at(rank);
  }
  /// Position among those that take different samples.
  [[nodiscard]] uint32_t samples_at(uint32_t rank) const { return data_at(rank) / options.sequence_ranks(); }
  /// How the columns of a sample are dealt to those.
  [[nodiscard]] core::column_order column_order() const {
    return options.mesh.degree(core::axis::context) > 1 ? core::column_order::two_ended
                                                        : core::column_order::neighbours;
  }
  /// Position in the group that shares each sample.
  [[nodiscard]] uint32_t sequence_at(uint32_t rank) const { return options.mesh.position(rank, core::sequence_axes); }
  /// Position of `rank` among those that share the states of a parameter.
  [[nodiscard]] uint32_t shard_at(uint32_t rank) const {
    return options.mesh.degree(core::axis::replicate) == 1 ? data_at(rank) : data_at(rank) % options.shards();
  }
  /// The replica that it belongs to. What all replicas hold alike, the first one speaks for.
  [[nodiscard]] uint32_t replica_at(uint32_t rank) const { return data_at(rank) / options.shards(); }
  [[nodiscard]] bool holds(uint32_t rank, uint32_t parameter) const {
    return pipeline_of[parameter] == pipeline_at(rank);
  }
  /// The elements of `parameter` that are `rank`'s own; none where it does not hold it.
  [[nodiscard]] slice slice_of(uint32_t parameter, uint32_t rank) const {
    return holds(rank, parameter) ? partition.of(parameter, shard_at(rank)) : slice{};
  }

  /// The elements of `parameter` that `rank` keeps in the second copy; none of those that stay gathered.
  [[nodiscard]] slice near_slice(uint32_t parameter, uint32_t rank) const {
    if (!options.has_near_copies() || persistent[parameter] || !holds(rank, parameter)) return {};
    return near_partition.of(parameter, shard_at(rank) % options.gathering.near);
  }

  /// Layers whose inputs' ranges the vote of a step that trains has, in the order of the options.
  [[nodiscard]] uint64_t calibrated() const {
    return options.mode == mode::train ? options.compressed.calibrated.size() : 0;
  }
  /// Square sums of all blocks, then per data coordinate: losses of its micro-batches; then of each rank of a stage: of
  /// each calibrated layer the least and the largest element of its input. In doubles.
  [[nodiscard]] uint64_t vote_elements() const {
    return loss_offset(options.data(), 0) + 2 * calibrated() * options.data() * tensor_ranks();
  }
  /// Of the range that `rank` has seen of calibrated layer number `k`.
  [[nodiscard]] uint64_t range_offset(uint32_t rank, uint64_t k) const {
    const uint64_t place = uint64_t{data_at(rank)} * tensor_ranks() + tensor_at(rank);
    return loss_offset(options.data(), 0) + 2 * (place * calibrated() + k);
  }
  /// Of the loss of data position `data`, in one of its micro-batches.
  [[nodiscard]] uint64_t loss_offset(uint32_t data, uint32_t micro) const {
    return num_blocks + uint64_t{data} * options.accumulation + micro;
  }
  [[nodiscard]] bool gathers() const { return options.stage == 3; }
  /// The gather set of those parameters of `rank` that stay gathered for the whole step; it may be empty.
  [[nodiscard]] uint32_t persistent_set(uint32_t rank) const {
    return static_cast<uint32_t>(table->units.size()) + pipeline_at(rank);
  }
  /// Slices of gather set `set` are read from a file before they are gathered.
  [[nodiscard]] bool reads_shards(uint32_t set) const {
    return options.tiers.parameters == tier::nvme && !cached[set] && gather_sets[set].numel > 0;
  }
  [[nodiscard]] bool swaps_gradients() const { return options.tiers.swap_gradients && !options.reduces_in_place(); }
  [[nodiscard]] bool trains(uint32_t parameter) const { return table->parameters[parameter].trainable; }
  [[nodiscard]] bool is_copy(uint32_t parameter) const { return table->parameters[parameter].is_copy(); }
  [[nodiscard]] bool is_of_teacher(uint32_t parameter) const { return table->parameters[parameter].of_teacher; }
  /// The tie that a bucket's only parameter belongs to; none if it is not tied.
  [[nodiscard]] uint32_t tie_of_bucket(uint32_t bucket) const {
    return tie_of[buckets[bucket].parameters.front().parameter];
  }
  /// The square sums of a bucket are in the vote: all but those of a copy, whose original's are.
  [[nodiscard]] bool is_voted_on(uint32_t bucket) const {
    return !is_copy(buckets[bucket].parameters.front().parameter);
  }
  /// Blocks of what one rank of a tensor group has of `parameter`.
  [[nodiscard]] uint64_t blocks_each(uint32_t parameter) const {
    return core::div_up(table->parameters[parameter].numel(), core::partition_grain);
  }
  /// The first block of `rank`'s share of `parameter` in the vote. Shares lie one behind the other.
  [[nodiscard]] uint64_t first_block(uint32_t parameter, uint32_t rank) const {
    return block_offset[parameter] + (is_cut(parameter) ? tensor_at(rank) * blocks_each(parameter) : 0);
  }
  /// Blocks of `parameter` that the vote counts.
  [[nodiscard]] uint64_t blocks_of(uint32_t parameter) const;
  /// The micro-batch whose gradients in `bucket` are whole as the n-th of the step, counted from 0. Sums begin with the
  /// first one and are whole with the last: nobody else decides by a micro-batch's number what comes first or last.
  [[nodiscard]] uint32_t nth_micro(uint32_t bucket, uint32_t n) const {
    return bucket_order.empty() ? n : bucket_order[bucket][n];
  }
  [[nodiscard]] uint32_t first_micro(uint32_t bucket) const { return nth_micro(bucket, 0); }
  [[nodiscard]] uint32_t last_micro(uint32_t bucket) const { return nth_micro(bucket, options.accumulation - 1); }
  /// The update need of `parameter`; `elements` if it is frozen.
  [[nodiscard]] update_need need_of(uint32_t parameter) const {
    return trains(parameter) ? options.update_of(parameter).need : update_need::elements;
  }
  /// Square sums per block of weights, then of update directions. In doubles; 0 where no parameter needs norms.
  [[nodiscard]] uint64_t measured_elements() const;
  /// The elements of `parameter` that `rank` keeps states of.
  [[nodiscard]] slice state_slice(uint32_t parameter, uint32_t rank) const {
    if (!trains(parameter)) return {};
    if (!options.updates_all()) return slice_of(parameter, rank);
    return holds(rank, parameter) ? slice{0, table->parameters[parameter].numel()} : slice{};
  }
};

}  // namespace troupe::plan
