// Says how the software of a stack computes a step where a job does not: attention, norms over tensor ranks,
// recomputation. The forms of the tables to which a stack was fitted (table_forms.cpp) decide it.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "hardware/stack.hpp"

namespace troupe::hardware {

struct step_form {
  std::string_view table;          ///< table_form::name
  bool fused_attention = false;    ///< one kernel, which skips what is masked; else scores are written to memory
  bool sequence_parallel = false;  ///< norms, dropouts and residuals are divided over tensor ranks
  bool early_stop = false;         ///< a recomputed block stops before its last product
};

/// Returns the forms of all tables with steps, in the order in which a card's stacks are preferred: Megatron-LM's, then
/// others that a job's degrees fit.
std::span<const step_form> step_forms();
/// Returns the names of their tables.
std::vector<std::string_view> step_form_names();
/// Returns the form of a stack's steps, an element of step_forms(); null if none of its tables has steps.
const step_form* step_form_of(const stack& of);

}  // namespace troupe::hardware
