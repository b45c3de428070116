// Lists what the instructions of a plan read and write, as places: bytes of slots, elements of parameters and states,
// and other data of a rank. Derived from the meaning of each instruction, without the checker's rules.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// The kind of data that a place is part of. `place::index` numbers the objects named below.
enum class area : uint8_t {
  slots,          ///< bytes of a pool
  parameters,     ///< elements of a parameter, whole or this rank's slice
  near_copies,    ///< second copies of a unit's parameters
  states,         ///< masters and moments of a parameter's elements
  stored_states,  ///< states in the rank's file; if it has two places for them, the valid ones
  next_states,    ///< states in the other place of that file, which a step writes
  sums,           ///< reduced gradients of a bucket, kept apart from it
  stored_sums,    ///< reduced gradients of a bucket in the rank's file
  stored_inputs,  ///< inputs of an activation extent in the rank's file
  undo_copies,    ///< undo copies of a sub-group
  prepared,       ///< results of `prepare` that the update of a sub-group needs in addition to elements
  measured,       ///< norms of all ranks
  norms,          ///< norms of a bucket
  losses,         ///< losses of a micro-batch
  votes,
  activations,  ///< activations that autograd keeps for a micro-batch in a stage, outside all pools
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

/// Returns all places on its own rank that an instruction touches.
std::vector<touch> touches_of(const plan::rank_plan& p, const plan::instruction& x);

/// True if the instruction copies or releases bytes and computes nothing.
bool only_copies(const plan::instruction& x);

}  // namespace troupe::actors
