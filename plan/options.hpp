// Owns the generator's input apart from the model: degrees of parallelism, ZeRO stage, sizes, dtypes, the pipeline's
// schedule, and the passes that a host program adds.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/dtype.hpp"
#include "core/math.hpp"
#include "core/mesh.hpp"
#include "core/model_table.hpp"
#include "plan/action.hpp"
#include "plan/late_updates.hpp"
#include "plan/partition.hpp"
#include "plan/tiers.hpp"

namespace troupe::plan {

struct pass;  // defined in plan/passes/pass.hpp

/// The purpose of a plan; a `save` plan only writes a checkpoint.
enum class mode : uint8_t { train, evaluate, generate, save };

/// The values that an optimizer reads for a parameter, beyond the elements that it updates.
enum class update_need : uint8_t {
  elements,         ///< nothing beyond the updated elements
  parameter_norms,  ///< the norms of the whole parameter and of its whole update (LAMB)
  whole_matrix,     ///< the whole update as one matrix (Muon)
};

/// The properties of a parameter's update that the plan depends on.
struct parameter_update {
  /// Number of states that the optimizer keeps for each element besides its weight: moments, and the moving average of
  /// the weights, which follows them.
  uint32_t moments = 2;
  update_need need = update_need::elements;
  /// Shape of the whole matrix if ranks of a tensor group hold parts of it; 0: the shape in the model table is the
  /// whole.
  uint64_t rows = 0, columns = 0;
  bool operator==(const parameter_update&) const = default;
};
inline constexpr uint32_t max_moments = 3;

/// The dtypes of a run's elements.
struct element_types {
  core::dtype parameter = core::dtype::f32;  ///< dtype of parameters, activations and their gradients
  core::dtype communication = core::dtype::f32;
  core::dtype accumulation = core::dtype::f32;  ///< dtype of reduced gradients
  bool operator==(const element_types&) const = default;
};

/// How the gradients of a parameter that several units read are combined.
enum class tied_gradients : uint8_t {
  in_bucket,  ///< gradients are added in the parameter's one bucket, micro-batch by micro-batch
  /// Each unit but the first reads a copy of the parameter (core/tied_copies.hpp); the copies' reduced gradients are
  /// added once a step.
  per_use,
};

/// Identifies a segment of the model. Values compare in the order in which forward runs the segments.
struct segment_place {
  uint32_t unit = 0, segment = 0;
  auto operator<=>(const segment_place&) const = default;
};

/// Options for buckets of gradients and their reduction.
struct gradient_options {
  bool sum_micro_first = true;           ///< true: gradients of micro-batches are added before they are reduced
  bool reduce_scatter = true;            ///< stage 1: reduce-scatter if true, all-reduce if false
  uint64_t reduce_bucket = 500'000'000;  ///< largest number of elements of a gradient bucket
  bool buckets_follow_units = false;     ///< true: a bucket ends with its unit, unless the bucket is small
  tied_gradients tied = tied_gradients::in_bucket;
  bool operator==(const gradient_options&) const = default;
};

/// The amount of computation that overlaps with a whole gather: a constant number of flops, plus flops for each byte
/// that is gathered.
struct hidden_gathers {
  double flops = 0, flops_per_byte = 0;
  [[nodiscard]] bool on() const { return flops > 0 || flops_per_byte > 0; }
  bool operator==(const hidden_gathers&) const = default;
};

/// Options for the times at which parameters are gathered and released at stage 3. Sizes in elements.
struct gather_options {
  uint64_t prefetch_bucket = 50'000'000;
  uint64_t persistence_threshold = 100'000;  ///< parameters of at most this many elements stay gathered
  uint64_t model_persistence_threshold = 9223372036854775807ULL;
  uint64_t max_live = 1'000'000'000;  ///< largest number of gathered elements at a time; limits prefetch only
  uint64_t max_reuse_distance = 1'000'000'000;
  /// Units, ascending, whose parameters stay gathered for the whole step whatever the thresholds are, and are not
  /// counted against the thresholds.
  std::vector<uint32_t> resident_units = {};
  /// If on, used instead of prefetch_bucket: each unit is gathered just early enough that this much computation
  /// precedes its use.
  hidden_gathers hidden = {};
  /// Number of neighbouring ranks that keep a second copy of the parameters among them during a step (hpZ): the first
  /// gather of a unit reads all shards, later gathers read the second copy. Divides the number of shards; 0, 1 or all
  /// shards: no second copy.
  uint32_t near = 0;
  bool operator==(const gather_options&) const = default;
};

/// How and when the optimizer updates, and how the updated parameters reach the other ranks.
struct update_options {
  uint64_t sub_group = 1'000'000'000;       ///< number of elements of this rank's partition in one sub-group
  uint64_t allgather_bucket = 500'000'000;  ///< largest number of elements of a publish set
  /// True: sub-groups whose optimizer needs nothing but elements are updated before the vote (SuperOffload).
  bool speculate = false;
  bool may_skip = true;   ///< true: a gradient that is not finite skips the step; false: it ends the run
  bool may_clip = false;  ///< true: gradients whose norm exceeds a limit are scaled down to it
  late_updates late = {};
  /// [parameter]: properties of the parameter's update; empty: every parameter has the defaults of parameter_update.
  std::vector<parameter_update> rules = {};
  /// True if a vote may have a result for which updates before the vote must be undone.
  [[nodiscard]] bool may_undo() const { return may_skip || may_clip; }
  bool operator==(const update_options&) const = default;
};

/// The ranks, out of all that hold the same elements, that share the work of writing them: one rank in all (`single`),
/// every rank (`replica`), or one on each socket or machine.
enum class writer_unit : uint8_t { single, replica, socket, machine };

/// Options of the checkpoint that a step writes.
struct save_options {
  bool on = false;  ///< true: the step saves the states as they are before the step
  /// bytes of the staging memory, which holds snapshots until they are written
  uint64_t staging_bytes = uint64_t{64} << 20;
  writer_unit writers = writer_unit::replica;
  uint32_t machines = 1;  ///< number of machines; each holds an equal run of consecutive ranks
  bool operator==(const save_options&) const = default;
};

/// A parameter that a unit reads in quantised or pruned form.
struct compressed_use {
  uint32_t unit = 0, parameter = 0;
  /// elements of scratch space that compression needs in the slot, in addition to its result
  uint64_t room_elements = 0;
  uint64_t mask_bytes = 0;  ///< bytes of the parameter's masks, which are allocated for the whole run
  /// number of value ranges that tensor ranks exchange for quantisation groups that are split over these ranks; 0: no
  /// group is split
  uint64_t ranges = 0;
  bool told_twice = false;  ///< true: the ranges are exchanged twice; the second ones depend on the first
  /// True if the mask has learned scores. Their gradients are computed from the parameter and from its gradient. The
  /// unit's backward, which has both, is therefore not split.
  bool learns = false;
  auto operator<=>(const compressed_use&) const = default;
};

/// A layer that multiplies with a compressed form of its input, which occupies `room_bytes` bytes in each micro-batch.
struct compressed_input {
  uint32_t layer = 0;  ///< index of the layer in model_table::layers
  uint64_t room_bytes = 0;
  auto operator<=>(const compressed_input&) const = default;
};

/// Options of compression: the parameters and inputs that units read in quantised or pruned form.
struct compression_options {
  /// Compressed weights, ascending; a unit multiplies with compressed copies in a slot.
  std::vector<compressed_use> weights = {};
  std::vector<compressed_input> inputs = {};  ///< layers whose inputs are compressed, ascending
  /// Layers, ascending, whose input ranges (least and largest element) the ranks exchange in the vote of a training
  /// step. Must be equal in every phase of a compression schedule, so that all votes have one size.
  std::vector<uint32_t> calibrated = {};
  bool operator==(const compression_options&) const = default;

  /// True if this unit's backward must not be split into input and weight parts.
  [[nodiscard]] bool is_unsplit(uint32_t unit) const {
    return std::ranges::any_of(weights, [&](const compressed_use& x) { return x.unit == unit && x.learns; });
  }
  /// Returns the largest scratch space, in elements, that the compression of one of the unit's parameters needs.
  [[nodiscard]] uint64_t room_elements(uint32_t unit) const {
    uint64_t room = 0;
    for (const auto& x : weights)
      if (x.unit == unit) room = std::max(room, x.room_elements);
    return room;
  }
  /// Bytes of the value ranges that a rank sends to its tensor group before the first use of a unit in a step: the
  /// ranges of the compressed groups, parameter after parameter, two f64 per range. 0: the unit has no ranges to send.
  [[nodiscard]] uint64_t range_bytes(uint32_t unit) const {
    uint64_t ranges = 0;
    for (const auto& x : weights)
      if (x.unit == unit) ranges += x.ranges;
    return core::round_up(ranges * 2 * sizeof(double), core::input_alignment);
  }
  /// True if the value ranges of the unit's compressed groups are exchanged twice in a step.
  [[nodiscard]] bool tells_twice(uint32_t unit) const {
    return std::ranges::any_of(weights, [&](const compressed_use& x) { return x.unit == unit && x.told_twice; });
  }
};

/// The stages of a pipeline, and the order in which each rank computes its stages.
struct pipeline_options {
  /// [stage]: first unit of the stage, in the order of the model; empty: the model is one stage.
  std::vector<uint32_t> first_unit = {};
  /// pipeline schedule of a step: the actions of all ranks, for as many stages and micro-batches as the plan has,
  /// without sends and receives
  pipeline_table table = {};
  bool operator==(const pipeline_options&) const = default;
};

/// All options from which a plan is generated.
struct plan_options {
  plan::mode mode = mode::train;
  core::mesh mesh = {};
  uint32_t stage = 0;
  uint32_t accumulation = 1;  ///< number of micro-batches of one optimizer step
  uneven_blocks uneven = uneven_blocks::to_least;
  bool overlap = true;  ///< value of the configuration key overlap_comm
  /// The configuration key tp_overlap_comm: weight parts of backward overlap with the exchanges of gradients.
  bool overlap_exchanges = false;
  /// The configuration key exchange_pieces: number of pieces of rows in which a product is computed and summed over
  /// ranks.
  uint32_t exchange_pieces = 1;
  bool recompute = false;                 ///< activation checkpointing of every unit except `kept_units`
  std::vector<uint32_t> kept_units = {};  ///< units that keep their activations although others recompute, ascending
  segment_place light_before = {};        ///< first segment that keeps all its bytes for backward; earlier ones keep
                                          ///< fewer, if they can (plan/keeping.hpp)
  /// True: a recompute repeats exchanges instead of keeping their results (partition_activations).
  bool repeat_exchanges = false;
  uint64_t memory_budget_bytes = 0;  ///< limit of one rank's budgeted_bytes (plan/memory_places.hpp); 0: no limit
  uint64_t device_budget_bytes = 0;  ///< limit of one rank's device_bytes (plan/memory_places.hpp); 0: no limit
  element_types types = {};
  gradient_options gradients = {};
  gather_options gathering = {};
  update_options updates = {};
  save_options saving = {};
  tier_options tiers = {};
  pipeline_options pipeline = {};
  compression_options compressed = {};
  /// Passes that the host program adds to Troupe's own (plan/passes/pass.hpp).
  std::vector<std::shared_ptr<const pass>> passes = {};

  bool operator==(const plan_options&) const = default;

  [[nodiscard]] uint32_t ranks() const { return mesh.ranks(); }
  /// True if `unit` is recomputed in backward. The first unit of the model itself is never recomputed, whatever this
  /// returns.
  [[nodiscard]] bool recomputes(uint32_t unit) const {
    return recompute && !std::binary_search(kept_units.begin(), kept_units.end(), unit);
  }
  /// Number of ranks that process different tokens. A gradient is the mean of their contributions.
  [[nodiscard]] uint32_t data() const { return mesh.data(); }
  /// Number of ranks over which the states of a parameter are divided. At stage 0 every rank holds whole states, and
  /// only the work of adding gradients is divided.
  [[nodiscard]] uint32_t shards() const {
    return stage == 0 ? data() : mesh.degree(core::axis::shard) * sequence_ranks();
  }
  [[nodiscard]] uint32_t sequence_ranks() const { return mesh.sequence_ranks(); }
  /// True if parameters have a second copy, which is sharded over fewer ranks (hpZ).
  [[nodiscard]] bool has_near_copies() const {
    return stage == 3 && gathering.near > 1 && gathering.near < shards() && shards() % gathering.near == 0;
  }
  /// Returns the number of groups of data-parallel ranks that hold the same states.
  [[nodiscard]] uint32_t replicas() const { return data() / shards(); }
  /// Position of `rank` among the ranks over which the states of a parameter are divided.
  [[nodiscard]] uint32_t shard_at(uint32_t rank) const {
    return mesh.degree(core::axis::replicate) == 1 ? mesh.data_at(rank) : mesh.data_at(rank) % shards();
  }
  /// Index of the replica of the states that `rank` is in. The first replica reports values that are equal on all
  /// replicas.
  [[nodiscard]] uint32_t replica_at(uint32_t rank) const { return mesh.data_at(rank) / shards(); }

  [[nodiscard]] core::dtype master() const {
    return types.parameter == core::dtype::f64 ? core::dtype::f64 : core::dtype::f32;
  }
  /// True if a parameter is its own master weight.
  [[nodiscard]] bool master_is_parameter() const { return types.parameter == master() && !tiers.weights_go_up(); }
  /// True if every bucket has a buffer of its own for the whole step, and is reduced once a step. False: buckets share
  /// slots, and every micro-batch is reduced. See docs/numerics.md.
  [[nodiscard]] bool buckets_stay() const { return accumulation == 1 ? stage <= 1 : gradients.sum_micro_first; }
  /// True if reduced gradients are stored in their buckets. False: they are stored in memory of their own, next to the
  /// states.
  [[nodiscard]] bool reduces_in_place() const { return buckets_stay() && !tiers.updates_on_host(); }
  /// Returns the dtype of the local gradient in its bucket. The dtype is the same at every stage: the two contributions
  /// of a tied weight are added in the bucket, and the bits of the result depend on where they are rounded.
  [[nodiscard]] core::dtype bucket_type() const {
    return accumulation == 1 || buckets_stay() ? types.accumulation : types.parameter;
  }
  /// True if all ranks receive every reduced gradient. If bucket slots are reused, only the owner has memory for it.
  [[nodiscard]] bool reduce_to_all() const {
    return stage == 0 || (stage == 1 && !gradients.reduce_scatter && reduces_in_place());
  }
  [[nodiscard]] parameter_update update_of(uint32_t parameter) const {
    return updates.rules.empty() ? parameter_update{} : updates.rules[parameter];
  }
  /// True if every rank updates all elements of its parameters (stage 0).
  [[nodiscard]] bool updates_all() const { return stage == 0; }
};

}  // namespace troupe::plan
