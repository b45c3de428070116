// Reads the faults of a simulation as users write them: sentences such as `rank 3 dies at step 10`. Owns their grammar,
// which docs/simulation.md documents; sim/fault.hpp owns the faults themselves.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "sim/fault.hpp"

namespace troupe::apps {

struct fault_sentence {
  std::string text;   ///< the sentence, with single spaces
  sim::fault fault;   ///< the fault of a simulated world
  uint64_t step = 0;  ///< the step that the sentence names; 0: none
};

/// Reads a sentence. Refuses (bad_input) what is no sentence of the grammar, with the word at which it ends to be one
/// and the words that were wanted. Leaves to the world whether it has the place and the moment.
core::result<fault_sentence> read_fault(std::string_view sentence);

}  // namespace troupe::apps
