// Lists the data that the instructions of a plan read and write, as ranges: bytes of slots, elements of parameters and
// states, and other data of a rank. Derived from the definition of each instruction, independently of the checker's
// rules.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// The kind of data that a range belongs to. `place::index` is the index of the object in each description.
enum class area : uint8_t {
  slots,          ///< bytes of memory pool `index`
  parameters,     ///< elements of parameter `index`: all of them, or this rank's shard
  near_copies,    ///< second copies (hpZ) of the parameters of a unit
  states,         ///< master weights and moments of the elements of a parameter
  stored_states,  ///< states in the rank's swap file; if it has two copies of them, the valid one
  next_states,    ///< states in the other copy in that file, which a step writes
  sums,           ///< reduced gradients of a bucket, stored outside of its slot
  stored_sums,    ///< reduced gradients of a bucket in the rank's swap file
  stored_inputs,  ///< offloaded inputs of a unit in the rank's swap file
  undo_copies,    ///< copies that undo the update of a sub-group
  prepared,       ///< results of `prepare` that the update of a sub-group needs besides its elements
  measured,       ///< parameter norms of all ranks
  norms,          ///< gradient square sums of a bucket
  losses,         ///< losses of a micro-batch
  votes,
  activations,  ///< activations that autograd keeps for a micro-batch in a pipeline stage, outside of all pools
};

struct place {  ///< elements [first, end) of object `index` in an area of one rank
  area of = area::slots;
  uint32_t index = 0;
  uint64_t first = 0, end = 1;
};

struct touch {
  enum class way : uint8_t { reads, writes, changes };
  place where;
  way how = way::reads;
};

/// Returns all data of the instruction's own rank that it reads or writes.
std::vector<touch> touches_of(const plan::rank_plan& p, const plan::instruction& x);

/// Returns true if the instruction copies or releases bytes and computes nothing.
bool only_copies(const plan::instruction& x);

}  // namespace troupe::actors
