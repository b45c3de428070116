// What the instructions of a plan read and write, as places: bytes of slots, elements of parameters and states, and
// what else a rank keeps. Told from what each instruction means, without the checker's rules.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// What a place is a part of. `index` counts what stands behind each.
enum class area : uint8_t {
  slots,          ///< bytes of a pool
  parameters,     ///< elements of a parameter, whole or this rank's slice
  near_copies,    ///< of a unit
  states,         ///< masters and moments of a parameter's elements
  stored_states,  ///< in the rank's file; where they have two places there, in the valid one
  next_states,    ///< in the other place of that file, which a step writes
  sums,           ///< reduced gradients of a bucket, kept apart from it
  stored_sums,    ///< in the file
  stored_inputs,  ///< likewise: of an activation extent
  undo_copies,    ///< of a sub-group
  prepared,       ///< likewise: what its update needs beyond elements
  measured,       ///< norms of all ranks
  norms,          ///< of a bucket
  losses,         ///< of a micro-batch
  votes,
  activations,  ///< of a micro-batch in a stage: what autograd keeps, outside of all pools
};

struct place {  ///< [first, end) of an area of one rank
  area of = area::slots;
  uint32_t index = 0;
  uint64_t first = 0, end = 1;
};

struct touch {
  enum class way : uint8_t { reads, writes, changes };
  place where;
  way how = way::reads;
};

/// All places on its own rank that an instruction touches.
std::vector<touch> touches_of(const plan::rank_plan& p, const plan::instruction& x);

/// Brings what it reads elsewhere as it is, and makes nothing of it.
bool only_copies(const plan::instruction& x);

}  // namespace troupe::actors
