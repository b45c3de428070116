// Owns the rules of the checker: each rule is a function that names the first instruction that violates it. For the
// checker and its tests only.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "plan/check/happens_before.hpp"
#include "plan/group_exchange.hpp"
#include "plan/kinds.hpp"
#include "plan/layout/classes.hpp"
#include "plan/layout/pieces.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan::rules {

/// Returns an error of instruction `id`: "rank 1: gather block 3, micro 0, backward (instruction 57) <what>".
tl::unexpected<core::error> broken(const rank_plan& p, uint32_t id, const std::string& what);
/// Returns the error that a plan violates the rule `what`, which concerns no single instruction.
tl::unexpected<core::error> broken(const rank_plan& p, const std::string& what);
/// Returns the error that the layout, which all plans share, violates the rule `what`.
tl::unexpected<core::error> broken(const job_layout& l, const std::string& what);
/// Returns the name of an instruction for errors: "forward block 3, micro 0 (instruction 12)".
std::string name(const rank_plan& p, uint32_t id);

// structure.cpp checks the form of plans, on which all other rules rely.
core::result<void> structure(const rank_plan& p);  ///< Checks the sizes, ids, subjects and lanes of one rank's plan.
/// Checks that the members of each communicator run equal collectives in the same order.
core::result<void> agreement(rank_plans ranks);
/// Checks that a rank's step can run in the order of its instruction ids.
core::result<void> serial(const rank_plan& p);

/// layout.cpp: checks that every element of every parameter has one offset in each parameter set that contains it, and
/// one owner.
core::result<void> layout(const job_layout& l);
/// pieces.cpp: checks that each collective moves every element of its parameter set exactly once, between its offset in
/// its owner's memory and its offset in the set.
core::result<void> pieces(const job_layout& l, const collective_pieces& all);
/// pieces.cpp: checks that the pieces `moved` of the reduction of `bucket` deliver every element of the bucket to its
/// owners exactly once; `places` has the offsets of each rank's slices.
core::result<void> reduction(const job_layout& l, const collective_pieces& places, uint32_t bucket,
                             const std::vector<moved_piece>& moved);
/// pieces.cpp: checks that the pieces `moved` of the vote contain each double (square sum, loss, input range) exactly
/// once, each from a rank that computes it.
core::result<void> vote(const job_layout& l, const std::vector<moved_piece>& moved);
/// exchanges.cpp: checks that the pieces `moved` of exchange `what` (the whole exchange, or piece `piece` of its rows)
/// cover the slot exactly once.
core::result<void> exchange(const job_layout& l, const group_exchange& what, const std::vector<moved_piece>& moved,
                            std::optional<uint32_t> piece = std::nullopt);
/// exchanges.cpp: checks that the pieces of each exchange of the model cover the exchange's slot exactly once.
core::result<void> exchanges(const job_layout& l, const collective_pieces& all);
/// compression.cpp: checks that the value ranges of compressed groups that each rank has computed reach all ranks of
/// its tensor group.
core::result<void> agreements(const job_layout& l, const collective_pieces& all);
/// ties.cpp: checks that each tie lists the original and all copies of its parameter, and that each use's gradient is
/// sent exactly once to every rank that needs it.
core::result<void> tied_layout(const job_layout& l);
/// ties.cpp: checks that each exchange moves the gradients that its senders hold, each to an offset of its own.
core::result<void> tied_pieces(const job_layout& l, const collective_pieces& all);
/// own.cpp: checks that the rank's slices and states have memory at the offsets that collectives use, that the rank
/// updates exactly the elements that it owns, and that its extents of the swap file do not overlap.
core::result<void> own(const rank_plan& p, const collective_pieces& places);
/// Function that makes one rank's own part of a plan: slices, sub-groups and offsets.
using rank_part = std::function<rank_plan(uint32_t rank)>;
/// own.cpp: checks for every rank, with the slices, sub-groups and offsets that `part` makes, that it updates exactly
/// the elements that it owns, and that all ranks together save every element once. Each rank is represented by the plan
/// of its class; `plans` are in the order of `classes`.
core::result<void> own_parts(std::span<const rank_class> classes, rank_plans plans, const collective_pieces& places,
                             const rank_part& part);
/// swaps.cpp: checks that a rank's states fill its swap file in whole pages, without overlaps or gaps, and that each
/// extent contains only elements that the rank owns.
core::result<void> swap_layout(const rank_plan& p, const collective_pieces& places);
/// activations.cpp: checks that the inputs of this rank's units have extents of the right size in the swap file, one
/// after the other without gaps, from byte `from` to the end of that file.
core::result<void> activation_extents(const rank_plan& p, uint64_t from);

/// saves.cpp: checks that all ranks together save every element of every state exactly once. Call `take` with every
/// rank's own part, in any order, then `end`.
class saved_once {
 public:
  explicit saved_once(const job_layout& l);  ///< Keeps a reference to `l`, which must outlive this object.
  core::result<void> take(const rank_plan& p, const collective_pieces& places);
  core::result<void> end();

 private:
  /// Returns the elements of a part of a parameter that were taken so far; for a cut parameter, the elements of one
  /// tensor coordinate. Adjacent slices that were taken in succession are merged.
  std::vector<slice>& of(uint32_t parameter, uint32_t part, uint32_t tensor);
  core::result<void> file_is_sound(const rank_plan& p) const;
  core::result<void> piece_is_sound(const rank_plan& p, const snapshot_block& block, const saved_piece& x) const;

  const job_layout& l_;
  uint64_t slot_bytes_;
  std::vector<std::vector<slice>> saved_;
  std::vector<slice> held_;  // [parameter]: elements held by the rank of the current `take`
};

/// structure.cpp: returns the length of the list that a subject is an index of; 0: the kind has no subject.
size_t num_subjects(const rank_plan& p, subject_type of);

/// Lists the ids of all instructions of one rank's plan in one branch. An index says for which part of the model or
/// step an instruction works; `none`: the plan has no such instruction.
struct roll {
  uint32_t num_segments = 0;           ///< number of segments of all units together
  std::vector<uint32_t> segment_base;  ///< [unit]: number of segments of the units before it
  /// [kind][index]: ids of a kind's instructions. The kind's row in plan/kinds.cpp (`one_per`) says which index: the
  /// micro-batch, segment_of(), the subject, subject * accumulation + micro-batch, the slot, or 0 for one instruction
  /// per step.
  std::array<std::vector<uint32_t>, num_kinds> by_kind;
  std::vector<uint32_t> state_in, state_out;  ///< [sub-group]: ids of swaps that read and write its states
  /// [sub-group]: ids of the swaps that read and write its states for a `redo`, which repeats an undone update.
  std::vector<uint32_t> again_in, again_out;
  /// [bucket * accumulation + micro-batch]: ids of the swaps that read and write the bucket's reduced gradients.
  std::vector<uint32_t> gradient_in, gradient_out;
  /// [buffer]: id of the swap that reads slices of parameters from the file into this window, for a gather.
  std::vector<uint32_t> shard_in;
  /// [micro-batch * units + unit]: ids of the swaps that read the unit's input from the swap file and write it there.
  std::vector<uint32_t> activation_in, activation_out;
  std::vector<uint32_t> send, receive;  ///< [place_of()]: ids of the transfers between pipeline stages
  std::vector<uint32_t> exchange;       ///< [exchange_of()]: ids of the exchanges after segments
  /// [piece_of()]: ids of the instructions that compute, and of the exchanges that move, the second and further
  /// pieces of a product that ends a segment.
  std::vector<uint32_t> multiply, piece_exchange;
  std::vector<std::vector<uint32_t>> gathers_of;  ///< [gather set]: ids of the gathers of the set
  std::vector<uint32_t> last_use;  ///< [unit]: id of the last compute instruction that reads the unit's parameters
  std::vector<std::vector<uint32_t>> accessors;  ///< [buffer]: ids of the buffer's readers and writers, in serial order

  /// Returns `by_kind` of a kind: the ids of its instructions.
  [[nodiscard]] const std::vector<uint32_t>& operator[](kind k) const { return by_kind[static_cast<size_t>(k)]; }
  /// Returns the id of the only instruction of a kind that occurs once in a step.
  [[nodiscard]] uint32_t only(kind k) const { return (*this)[k].front(); }

  /// Returns the index of a segment of a unit, or of a unit as a whole, in a micro-batch.
  [[nodiscard]] size_t segment_of(uint32_t micro, uint32_t unit, uint32_t segment = 0) const {
    return size_t{micro} * num_segments + segment_base[unit] + segment;
  }
  /// Returns the instruction that writes the gradients of a segment: backward, or its weight part. `segment` is a
  /// segment_of().
  [[nodiscard]] uint32_t writer(size_t segment) const {
    const uint32_t part = (*this)[kind::backward_weight][segment];
    return part == none ? (*this)[kind::backward][segment] : part;
  }
  /// Returns the id of the reduction that completes the gradient sum of a bucket.
  [[nodiscard]] uint32_t last_reduce(const job_layout& l, uint32_t bucket) const {
    return (*this)[kind::reduce][size_t{bucket} * l.options.accumulation + l.last_micro(bucket)];
  }

  /// Returns the index in `exchange` of the exchange of a segment's output in forward (`again`: in a recompute), or
  /// of the gradient of its input in backward.
  [[nodiscard]] size_t exchange_of(use way, bool again, uint32_t micro, uint32_t segment) const {
    return (size_t{micro} * 3 + (again ? 2 : static_cast<size_t>(way))) * num_segments + segment;
  }

  uint32_t num_pieces = 1;  ///< largest number of pieces of any product
  /// Returns the index of a piece in `multiply` and `piece_exchange`. `piece` is at least 1, which is the second piece.
  [[nodiscard]] size_t piece_of(uint32_t micro, uint32_t segment, uint32_t piece) const {
    return (size_t{micro} * num_segments + segment) * (num_pieces - 1) + piece - 1;
  }

  uint32_t num_stages = 1;
  /// Returns the index in `send` and `receive` of a transfer: of the activation that enters stage `later` (forward),
  /// or of its gradient (backward).
  [[nodiscard]] size_t place_of(use way, uint32_t micro, uint32_t later) const {
    return (size_t{micro} * 2 + static_cast<size_t>(way)) * num_stages + later;
  }
};
/// roll.cpp: returns the ids of the instructions of a plan by kind and subject. Fails if two instructions do the same
/// work, or if an instruction must not occur in a plan of this kind or of this rank.
core::result<roll> call_roll(const rank_plan& p, branch taken);

/// The input of the checker's rules: all ranks' plans in one branch (outcome of the vote) of a step.
struct world {
  rank_plans ranks;
  branch taken;
  happens_before order;
  std::vector<roll> rolls;                      ///< [rank]: ids of the rank's instructions
  std::vector<std::vector<uint32_t>> units_of;  ///< [parameter]: units that read the parameter

  [[nodiscard]] bool before(uint32_t rank, uint32_t a, uint32_t b) const { return order.before(rank, a, rank, b); }
};
/// True if `a` has ended before this rank itself starts `b`. For a collective `b`, `before` is a weaker statement: it
/// means only that no bytes move sooner, possibly because another member waits for `a`.
bool starts_after(const world& w, uint32_t rank, uint32_t a, uint32_t b);
/// Returns an error unless `a` has ended before `b` starts, both of this rank. `why` completes "rank 1: b does not wait
/// for a, <why>".
core::result<void> in_order(const world& w, uint32_t rank, uint32_t a, uint32_t b, const std::string& why);

// check.cpp: checks that every instruction with a guard waits for the vote, and that no instruction without a guard
// waits for one with a guard, which may not run.
core::result<void> guards(const world& w, uint32_t rank);
// compute.cpp: checks that forward, recompute and backward of every segment run once for every micro-batch, each after
// the instruction whose result it reads.
core::result<void> compute(const world& w, uint32_t rank);
// residency.cpp: checks that parameters are gathered before computation reads them, and released after that.
core::result<void> residency(const world& w, uint32_t rank);
/// compression.cpp: checks that each use multiplies with the compressed parameters that were made for it.
core::result<void> compression(const world& w, uint32_t rank);
// near_copies.cpp: checks that the second copy of each unit's parameters (hpZ) is stored once a step, from parameters
// that were gathered from all shards, and read only after that.
core::result<void> near_copies(const world& w, uint32_t rank);
// updates.cpp: checks that each bucket is reduced and normed after its gradients are complete, and that the vote waits
// for all losses and norms.
core::result<void> gradients(const world& w, uint32_t rank);
core::result<void> ties(const world& w, uint32_t rank);  // ties.cpp: checks that tied gradients are added once
// updates.cpp: checks that every sub-group is updated, after the vote unless the update is speculative, and after the
// last reader of the parameters that the update overwrites.
core::result<void> updates(const world& w, uint32_t rank);
// optimizer.cpp: checks that an update that needs norms or whole matrices of parameters starts after they are computed.
core::result<void> optimizer(const world& w, uint32_t rank);
core::result<void> saves(const world& w, uint32_t rank);  // saves.cpp: checks that states are copied before they change
/// updates.cpp: checks that every reader, in this step, of the data that an update of sub-group `g` overwrites has
/// ended before the update.
core::result<void> overwrites_nothing_needed(const world& w, uint32_t rank, uint32_t g);
// speculation.cpp: checks that each update before the vote reads completely reduced gradients, and that it is undone in
// exactly the steps that are skipped or clipped.
core::result<void> speculation(const world& w, uint32_t rank);
core::result<void> undo_copies(const rank_plan& p);  // speculation.cpp: checks that undo copies share no memory
// swaps.cpp: checks that states in files are read before their update and written after it, and that no extent of a
// file is read while it is written.
core::result<void> swaps(const world& w, uint32_t rank);
// activations.cpp: checks that inputs of units which are moved to a file are written, read back before their use, and
// not overwritten.
core::result<void> activations(const world& w, uint32_t rank);
// updates.cpp: checks that each publish waits for the updates whose results it sends and for the last reader of the
// parameters that it overwrites.
core::result<void> publishes(const world& w);
core::result<void> slots(const world& w, uint32_t rank);  // memory.cpp: checks that no byte is reused too early
core::result<void> memory(const rank_plan& p);  // memory.cpp: checks that the plan states the sizes that its buffers
                                                // need, and that these are within the budget.

}  // namespace troupe::plan::rules
