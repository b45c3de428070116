// Owns the writing of a schedule as a draft: the plain form of a step, which is correct but not yet fast. Every use of
// a unit has its own gather before it and its own release after it, and every update follows the vote. passes/ moves,
// removes and adds instructions, and place/ assigns offsets.
// `write_saves` and `write_updates` add two parts of it, each from a source of its own.
#pragma once

#include "plan/draft.hpp"

namespace troupe::plan {

/// Returns the draft of `p`, whose sets are made. `uses` is the computation of its rank, empty for plans that only
/// save.
draft write(const rank_plan& p, const schedule& uses);

/// Adds a snapshot and a write for each block of `p.snapshots`. A staging slot is reused after its write was handed
/// to the disk. Must be called before any instruction that changes states is added.
void write_saves(draft& d, const rank_plan& p);

/// Adds the part of the step that follows the vote, which must have been added. If gradients are reduced in place, the
/// lifetimes of buckets end with their last reader in this part.
void write_updates(draft& d, const rank_plan& p);

}  // namespace troupe::plan
