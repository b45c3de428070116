// The checker's own parts: each rule is a function that names the first instruction that breaks it. Not for others.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "plan/check/happens_before.hpp"
#include "plan/layout/classes.hpp"
#include "plan/layout/pieces.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan::rules {

/// An error of instruction `id`: "rank 1: gather block 3, micro 0, backward (instruction 57) <what>".
tl::unexpected<core::error> broken(const rank_plan& p, uint32_t id, const std::string& what);
/// An error of a plan as a whole.
tl::unexpected<core::error> broken(const rank_plan& p, const std::string& what);
/// An error of the layout that all plans share.
tl::unexpected<core::error> broken(const job_layout& l, const std::string& what);
/// "forward block 3, micro 0 (instruction 12)".
std::string name(const rank_plan& p, uint32_t id);

// structure.cpp: facts that later rules rely on.
core::result<void> structure(const rank_plan& p);  ///< sizes, ids, subjects, lanes
core::result<void> agreement(rank_plans ranks);    ///< same collectives on all ranks
core::result<void> serial(const rank_plan& p);     ///< the step can be done in the order of ids

core::result<void> layout(const job_layout& l);  ///< layout.cpp: every element has its place and its owner
/// pieces.cpp: the elements that collectives move.
core::result<void> pieces(const job_layout& l, const collective_pieces& all);
/// pieces.cpp: what one reduction moves, `places` being where ranks keep it; what the vote does.
core::result<void> reduction(const job_layout& l, const collective_pieces& places, uint32_t bucket,
                             const std::vector<moved_piece>& moved);
core::result<void> vote(const job_layout& l, const std::vector<moved_piece>& moved);
/// exchanges.cpp: what one exchange moves in the slots of its ranks, all of it or a piece of rows; all those of the
/// model.
core::result<void> exchange(const job_layout& l, const core::segment_exchange& what,
                            const std::vector<moved_piece>& moved, std::optional<uint32_t> piece = std::nullopt);
core::result<void> exchanges(const job_layout& l, const collective_pieces& all);
/// compression.cpp: each rank's ranges come whole to its tensor group.
core::result<void> agreements(const job_layout& l, const collective_pieces& all);
core::result<void> tied_layout(const job_layout& l);  ///< ties.cpp: uses of tied parameters, and what goes between them
/// ties.cpp: each exchange moves what its givers hold, to a place of its own.
core::result<void> tied_pieces(const job_layout& l, const collective_pieces& all);
/// own.cpp: the rank's own slices, updates, swaps, at the places where collectives look for them.
core::result<void> own(const rank_plan& p, const collective_pieces& places);
/// own.cpp: every rank's own part, as `part` makes it, and its share of a checkpoint. A rank is of the class that holds
/// it, for which the plan of the same place in `plans` stands.
using rank_part = std::function<rank_plan(uint32_t rank)>;
core::result<void> own_parts(std::span<const rank_class> classes, rank_plans plans, const collective_pieces& places,
                             const rank_part& part);
core::result<void> swap_layout(const rank_plan& p, const collective_pieces& places);  ///< swaps.cpp: the swap file
/// activations.cpp: behind the states, from byte `from` to the end of the file.
core::result<void> activation_extents(const rank_plan& p, uint64_t from);

/// saves.cpp: the contents of the checkpoint's files. `take` every rank's own part, in any order, then `end`.
class saved_once {
 public:
  explicit saved_once(const job_layout& l);  ///< keeps `l`, which has to outlive it
  core::result<void> take(const rank_plan& p, const collective_pieces& places);
  core::result<void> end();

 private:
  /// The elements of a part of a parameter that were taken so far, of a cut one those of a tensor coordinate;
  /// neighbours that were taken one after the other are one run.
  std::vector<slice>& of(uint32_t parameter, uint32_t part, uint32_t tensor);
  core::result<void> file_is_sound(const rank_plan& p) const;
  core::result<void> piece_is_sound(const rank_plan& p, const snapshot_block& block, const saved_piece& x) const;

  const job_layout& l_;
  uint64_t slot_bytes_;
  std::vector<std::vector<slice>> saved_;
  std::vector<slice> held_;  // [parameter]: of the rank in hand
};

/// The ids of all instructions that one rank's plan must have, by their task, in one branch; `none`: missing.
struct roll {
  uint32_t num_segments = 0;                             ///< of all units
  std::vector<uint32_t> segment_base;                    ///< [unit]: of its segments in the rows below
  std::vector<uint32_t> load;                            ///< [micro]
  std::vector<uint32_t> forward, backward, weigh;        ///< [micro * num_segments + segment_base + segment]
  std::vector<uint32_t> recompute;                       ///< as forward; at once: in the place of the first segment
  std::vector<uint32_t> reduce;                          ///< [bucket * accumulation + micro]
  std::vector<uint32_t> norm, update, publish;           ///< [bucket], [sub-group], [publish set]
  std::vector<uint32_t> tie, tied_sum;                   ///< [exchange], [tie]
  std::vector<uint32_t> prepare, undo, redo;             ///< [sub-group]
  std::vector<uint32_t> collect, orthogonalise, spread;  ///< [matrix set]
  std::vector<uint32_t> gather, release, compress;       ///< [buffer]
  std::vector<uint32_t> survey, agree;                   ///< [buffer]
  std::vector<uint32_t> snapshot, write;                 ///< [block of the checkpoint]
  std::vector<uint32_t> state_in, state_out;             ///< [sub-group]
  std::vector<uint32_t> again_in, again_out;             ///< [sub-group]: around an update that is done again
  std::vector<uint32_t> gradient_in, gradient_out;       ///< [bucket * accumulation + micro]
  std::vector<uint32_t> shard_in;                        ///< [buffer]
  std::vector<uint32_t> activation_in, activation_out;   ///< [micro * units + unit]
  std::vector<uint32_t> send, receive;                   ///< [place_of]: across the boundaries of stages
  std::vector<uint32_t> exchange;                        ///< [exchange_of]: behind segments
  /// [piece_of]: what a forward leaves of the product that ends its segment, and the exchange of that.
  std::vector<uint32_t> multiply, piece_exchange;
  uint32_t vote = none, measure = none;
  std::vector<std::vector<uint32_t>> gathers_of;  ///< [gather set]
  std::vector<uint32_t> last_use;                 ///< [unit]: of the compute lane
  std::vector<std::vector<uint32_t>> accessors;   ///< [buffer]: its readers and writers, in serial order

  /// What writes the gradients of a segment, by its place in these rows: backward, or its weight part.
  [[nodiscard]] uint32_t writer(size_t segment) const {
    return weigh[segment] == none ? backward[segment] : weigh[segment];
  }
  /// The reduction that makes the sum of a bucket whole.
  [[nodiscard]] uint32_t last_reduce(const job_layout& l, uint32_t bucket) const {
    return reduce[size_t{bucket} * l.options.accumulation + l.last_micro(bucket)];
  }

  /// In `exchange`: what goes forward behind a segment, or back out of it, or forward in a recompute.
  [[nodiscard]] size_t exchange_of(use way, bool again, uint32_t micro, uint32_t segment) const {
    return (size_t{micro} * 3 + (again ? 2 : static_cast<size_t>(way))) * num_segments + segment;
  }

  uint32_t num_pieces = 1;  ///< at most
  /// In `multiply` and `piece_exchange`: pieces from the second on.
  [[nodiscard]] size_t piece_of(uint32_t micro, uint32_t segment, uint32_t piece) const {
    return (size_t{micro} * num_segments + segment) * (num_pieces - 1) + piece - 1;
  }

  uint32_t num_stages = 1;
  /// In `send` and `receive`: what goes forward into stage `later`, or back out of it.
  [[nodiscard]] size_t place_of(use way, uint32_t micro, uint32_t later) const {
    return (size_t{micro} * 2 + static_cast<size_t>(way)) * num_stages + later;
  }
};
/// Of the compute lane: all but what gives parameters back.
inline bool computes(const instruction& x) {
  return x.kind == kind::forward || x.kind == kind::multiply || x.kind == kind::recompute || x.kind == kind::backward ||
         x.kind == kind::weigh;
}
/// roll.cpp. Fails if a task is done twice or has no place in a plan of this kind or rank.
core::result<roll> call_roll(const rank_plan& p, branch taken);

/// The input of the rules below: one branch of a step.
struct world {
  rank_plans ranks;
  branch taken;
  happens_before order;
  std::vector<roll> rolls;                      ///< [rank]
  std::vector<std::vector<uint32_t>> units_of;  ///< [parameter]: its readers

  [[nodiscard]] bool before(uint32_t rank, uint32_t a, uint32_t b) const { return order.before(rank, a, rank, b); }
};
/// `a` has ended before this rank itself starts `b`. Of a collective `before` says less: that no bytes move sooner,
/// which may be for what another member waits for.
bool starts_after(const world& w, uint32_t rank, uint32_t a, uint32_t b);
/// `a` must have ended before `b` starts, both of this rank; `why` completes "rank 1: b does not wait for a, <why>".
core::result<void> in_order(const world& w, uint32_t rank, uint32_t a, uint32_t b, const std::string& why);

core::result<void> guards(const world& w, uint32_t rank);     // check.cpp
core::result<void> compute(const world& w, uint32_t rank);    // compute.cpp: loads, forwards, backwards
core::result<void> residency(const world& w, uint32_t rank);  // compute.cpp: gathers, uses, releases
/// compression.cpp: a use multiplies with what was made for it of its parameters.
core::result<void> compression(const world& w, uint32_t rank);
core::result<void> near_copies(const world& w, uint32_t rank);  // near_copies.cpp: gathers from the second copy
core::result<void> gradients(const world& w, uint32_t rank);    // updates.cpp: buckets, reduces, norms, vote
core::result<void> ties(const world& w, uint32_t rank);         // ties.cpp: gradients of tied parameters are added once
core::result<void> updates(const world& w, uint32_t rank);      // updates.cpp: updates and the data they overwrite
core::result<void> optimizer(const world& w, uint32_t rank);    // optimizer.cpp: whole parameters that updates need
core::result<void> saves(const world& w, uint32_t rank);        // saves.cpp: copies, then changes
/// updates.cpp: every reader, in this step, of the data that an update of sub-group `g` overwrites has ended before it.
core::result<void> overwrites_nothing_needed(const world& w, uint32_t rank, uint32_t g);
core::result<void> speculation(const world& w, uint32_t rank);  // speculation.cpp: updates before the vote
core::result<void> undo_copies(const rank_plan& p);             // speculation.cpp: have room of their own
core::result<void> swaps(const world& w, uint32_t rank);        // swaps.cpp: states that live in files
core::result<void> activations(const world& w, uint32_t rank);  // activations.cpp: inputs that wait elsewhere
core::result<void> publishes(const world& w);                   // updates.cpp
core::result<void> slots(const world& w, uint32_t rank);        // memory.cpp: no byte reused too early
core::result<void> memory(const rank_plan& p);                  // memory.cpp: pools, budget

}  // namespace troupe::plan::rules
