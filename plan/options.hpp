// Input of the generator beside the model: degrees, stage, sizes, dtypes. Plain numbers.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/dtype.hpp"
#include "core/mesh.hpp"
#include "plan/action.hpp"
#include "plan/late_updates.hpp"
#include "plan/partition.hpp"
#include "plan/tiers.hpp"

namespace troupe::plan {

struct pass;  // plan/passes/pass.hpp

enum class mode : uint8_t { train, evaluate, generate, save };  ///< of a plan; `save` does nothing else

/// What an optimizer reads of a parameter beyond the elements that it updates.
enum class update_need : uint8_t {
  elements,         ///< nothing
  parameter_norms,  ///< the norms of the whole parameter and of its update (LAMB)
  whole_matrix,     ///< the whole update, as one matrix (Muon)
};

/// How a parameter is updated, as far as the plan depends on it.
struct parameter_update {
  uint32_t moments = 2;  ///< kept for each element
  update_need need = update_need::elements;
  uint64_t rows = 0, columns = 0;  ///< of the whole matrix where ranks of a tensor group have shares; 0: the table's
  bool operator==(const parameter_update&) const = default;
};
inline constexpr uint32_t max_moments = 2;

/// The types that elements have.
struct element_types {
  core::dtype parameter = core::dtype::f32;  ///< of parameters, activations and their gradients
  core::dtype communication = core::dtype::f32;
  core::dtype accumulation = core::dtype::f32;  ///< of reduced gradients
  bool operator==(const element_types&) const = default;
};

/// How the gradients of a parameter that several units read become one.
enum class tied_gradients : uint8_t {
  in_bucket,  ///< added in its one bucket, micro-batch by micro-batch
  per_use,    ///< each unit but the first reads a copy (core/tied_copies.hpp); reduced sums are added once a step
};

/// A segment of the model; in the order of forward.
struct segment_place {
  uint32_t unit = 0, segment = 0;
  auto operator<=>(const segment_place&) const = default;
};

/// How gradients are collected and reduced.
struct gradient_options {
  bool sum_micro_first = true;           ///< gradient_order: per_step; only matters when accumulation > 1
  bool reduce_scatter = true;            ///< stage 1: false reduces to all
  uint64_t reduce_bucket = 500'000'000;  ///< elements
  bool buckets_follow_units = false;     ///< a bucket ends with its unit, unless it is small
  tied_gradients tied = tied_gradients::in_bucket;
  bool operator==(const gradient_options&) const = default;
};

/// How much computation a gather is hidden behind: so much, and so much for each of its bytes.
struct hidden_gathers {
  double flops = 0, flops_per_byte = 0;
  [[nodiscard]] bool on() const { return flops > 0 || flops_per_byte > 0; }
  bool operator==(const hidden_gathers&) const = default;
};

/// Stage 3: when a unit's parameters are whole. In elements.
struct gather_options {
  uint64_t prefetch_bucket = 50'000'000;
  uint64_t persistence_threshold = 100'000;  ///< inclusive
  uint64_t model_persistence_threshold = 9223372036854775807ULL;
  uint64_t max_live = 1'000'000'000;  ///< limits prefetch only
  uint64_t max_reuse_distance = 1'000'000'000;
  /// Ascending: their parameters persist whatever the thresholds say, and count in neither.
  std::vector<uint32_t> resident_units = {};
  /// On, in place of prefetch_bucket: each unit is gathered so late that this much computation hides it.
  hidden_gathers hidden = {};
  /// Neighbours that keep a second copy of the parameters among them in a step: its first gather is from all shards,
  /// the later ones are from these (hpZ). Divides the shards; 0, 1, all: none.
  uint32_t near = 0;
  bool operator==(const gather_options&) const = default;
};

/// How and when the optimizer updates, and how what it made reaches the other ranks.
struct update_options {
  uint64_t sub_group = 1'000'000'000;       ///< elements of this rank's partition
  uint64_t allgather_bucket = 500'000'000;  ///< elements
  bool speculate = false;  ///< sub-groups are updated before the vote where only elements are needed (SuperOffload)
  bool may_skip = true;    ///< a gradient that is not finite skips the step; otherwise it ends the run
  bool may_clip = false;   ///< a norm above a limit scales the gradients
  late_updates late = {};
  std::vector<parameter_update> rules = {};  ///< [parameter]; empty: each as parameter_update's default
  /// The vote may find that what was updated before it has to be undone.
  [[nodiscard]] bool may_undo() const { return may_skip || may_clip; }
  bool operator==(const update_options&) const = default;
};

/// Of the ranks that hold the same elements, those that share the writing of them: every one, one on each socket or
/// machine, or one in all (`single`).
enum class writer_unit : uint8_t { single, replica, socket, machine };

/// The checkpoint that a step takes.
struct save_options {
  bool on = false;                              ///< the states before the step are saved in it
  uint64_t staging_bytes = uint64_t{64} << 20;  ///< that snapshots may wait in until they are written
  writer_unit writers = writer_unit::replica;
  uint32_t machines = 1;  ///< that hold equal runs of consecutive ranks
  bool operator==(const save_options&) const = default;
};

/// A parameter as a unit reads it: as what compression makes of it.
struct compressed_use {
  uint32_t unit = 0, parameter = 0;
  uint64_t room_elements = 0;  ///< that it takes beside what it makes, in the same slot
  uint64_t mask_bytes = 0;     ///< of its masks, which are there for the whole run
  uint64_t ranges = 0;         ///< of groups, which the ranks of a tensor group tell each other; 0: none of them is cut
  bool told_twice = false;     ///< what a rank tells the second time depends on what all told the first time
  /// Gradients of its mask's scores are made of the parameter and of its own gradient, so that the unit's backward,
  /// which has both, is not split.
  bool learns = false;
  auto operator<=>(const compressed_use&) const = default;
};

/// A layer that multiplies with what compression makes of its input; that takes so many bytes of a micro-batch.
struct compressed_input {
  uint32_t layer = 0;  ///< in model_table::layers
  uint64_t room_bytes = 0;
  auto operator<=>(const compressed_input&) const = default;
};

/// What units read compressed in a step.
struct compression_options {
  std::vector<compressed_use> weights = {};   ///< ascending; a unit multiplies with a copy of these in a slot
  std::vector<compressed_input> inputs = {};  ///< ascending
  /// Layers, ascending, of whose inputs ranks tell each other the range in the vote of a step that trains; the same in
  /// every phase, so that votes have one size.
  std::vector<uint32_t> calibrated = {};
  bool operator==(const compression_options&) const = default;

  /// Whether the unit's backward is done at once wherever it could be split.
  [[nodiscard]] bool is_unsplit(uint32_t unit) const {
    return std::ranges::any_of(weights, [&](const compressed_use& x) { return x.unit == unit && x.learns; });
  }
};

/// The stages of a pipeline, and the order in which each rank computes its own.
struct pipeline_options {
  std::vector<uint32_t> first_unit = {};  ///< [stage] in the order of the model; empty: the model is one stage
  pipeline_table table = {};              ///< of as many stages and micro-batches; without sends and receives
  bool operator==(const pipeline_options&) const = default;
};

struct plan_options {  ///< input of the generator
  plan::mode mode = mode::train;
  core::mesh mesh = {};
  uint32_t stage = 0;
  uint32_t accumulation = 1;  ///< micro-batches of one optimizer step
  uneven_blocks uneven = uneven_blocks::to_least;
  bool overlap = true;                    ///< overlap_comm
  bool overlap_exchanges = false;         ///< tp_overlap_comm: weight parts of backward run beside gradients' exchanges
  uint32_t exchange_pieces = 1;           ///< exchange_pieces: of rows, where a product's sum over ranks has them
  bool recompute = false;                 ///< activation checkpointing of every unit but those of `kept_units`
  std::vector<uint32_t> kept_units = {};  ///< ascending: they keep their activations although others recompute
  segment_place light_before = {};        ///< segments in front of it keep less of theirs (plan/keeping.hpp)
  bool repeat_exchanges = false;          ///< recomputes exchange again what is kept otherwise (partition_activations)
  uint64_t memory_budget_bytes = 0;       ///< of one rank, for budgeted_bytes (plan/memory_places.hpp); 0: none
  uint64_t device_budget_bytes = 0;       ///< of one rank, for device_bytes; 0: none
  element_types types = {};
  gradient_options gradients = {};
  gather_options gathering = {};
  update_options updates = {};
  save_options saving = {};
  tier_options tiers = {};
  pipeline_options pipeline = {};
  compression_options compressed = {};
  /// That a program adds to ours (plan/passes/pass.hpp).
  std::vector<std::shared_ptr<const pass>> passes = {};

  bool operator==(const plan_options&) const = default;

  [[nodiscard]] uint32_t ranks() const { return mesh.ranks(); }
  /// Whether backward makes the activations of `unit` again; the model's first one is never computed again.
  [[nodiscard]] bool recomputes(uint32_t unit) const {
    return recompute && !std::binary_search(kept_units.begin(), kept_units.end(), unit);
  }
  /// Ranks of which each takes other tokens: a gradient is the mean of what they contribute.
  [[nodiscard]] uint32_t data() const { return mesh.data(); }
  /// Ranks that the states of a parameter are cut over. At stage 0 all ranks hold them whole and share the sums.
  [[nodiscard]] uint32_t shards() const {
    return stage == 0 ? data() : mesh.degree(core::axis::shard) * sequence_ranks();
  }
  /// Of data(), so many neighbours have other tokens of the same samples.
  [[nodiscard]] uint32_t sequence_ranks() const { return mesh.size(core::sequence_axes); }
  /// Parameters have a second copy, cut over fewer ranks.
  [[nodiscard]] bool has_near_copies() const {
    return stage == 3 && gathering.near > 1 && gathering.near < shards() && shards() % gathering.near == 0;
  }
  /// Groups of so many ranks that hold the same states.
  [[nodiscard]] uint32_t replicas() const { return data() / shards(); }

  [[nodiscard]] core::dtype master() const {
    return types.parameter == core::dtype::f64 ? core::dtype::f64 : core::dtype::f32;
  }
  /// The parameter is its own master weight.
  [[nodiscard]] bool master_is_parameter() const { return types.parameter == master() && !tiers.weights_go_up(); }
  /// Buckets stay for the whole step, which is reduced once; otherwise slots are reused and each micro-batch is
  /// reduced. See docs/numerics.md.
  [[nodiscard]] bool buckets_stay() const { return accumulation == 1 ? stage <= 1 : gradients.sum_micro_first; }
  /// Reduced gradients lie in their buckets; otherwise in memory of their own, beside the states.
  [[nodiscard]] bool reduces_in_place() const { return buckets_stay() && !tiers.updates_on_host(); }
  /// dtype of the local gradient in its bucket. The same at every stage: a tied weight's two contributions are added
  /// there, and where they are rounded shows in the bits.
  [[nodiscard]] core::dtype bucket_type() const {
    return accumulation == 1 || buckets_stay() ? types.accumulation : types.parameter;
  }
  /// All ranks receive every reduced gradient. Where slots are reused only the owner has room for it.
  [[nodiscard]] bool reduce_to_all() const {
    return stage == 0 || (stage == 1 && !gradients.reduce_scatter && reduces_in_place());
  }
  [[nodiscard]] parameter_update update_of(uint32_t parameter) const {
    return updates.rules.empty() ? parameter_update{} : updates.rules[parameter];
  }
  /// Every rank updates everything.
  [[nodiscard]] bool updates_all() const { return stage == 0; }
};

}  // namespace troupe::plan
