// Checks before anything runs that a pipeline table can be executed. Owns the rules; leaves the times of tables to
// timing.hpp, and the files of tables to text.hpp.
#pragma once

#include <optional>
#include <string>

#include "plan/action.hpp"

namespace troupe::plan {

/// The reason why a pipeline table is refused: the rank whose list of actions is wrong, and a sentence that names the
/// action.
struct table_fault {
  uint32_t rank = 0;
  std::string text;
};

/// Returns the first fault of a table; nothing if the table can run:
/// - every stage is computed on its own rank; F of each of its micro-batches occurs once and, if the table trains,
///   either B, or I and W;
/// - F comes after F of the stage before; B and I come after B or I of the next stage and after F; W comes after I;
/// - the ranks never wait for each other in a cycle; sends do not wait, receives do;
/// - if the table has transfers, each output and gradient for another rank is sent once and received once, and none for
///   the same rank;
/// - a stage that is gathered (UNSHARD) computes only while it is gathered; REDUCE_GRAD occurs once, after the last W
///   or B.
std::optional<table_fault> find_fault(const pipeline_table& t);

/// Returns the first action that violates the order of micro-batches among the forwards of its stage (F), among the
/// gradients of the input (B, I), or among the gradients of the weights (B, W); nothing if no action does. A table that
/// violates the order adds gradients in another order, so that their bits differ.
std::optional<table_fault> find_reordering(const pipeline_table& t);

/// Returns the first action that changes the order of additions in a gradient sum to which several stages of one rank
/// write; nothing if no action does. `stages` are in the order of the model. Required is the order of a run without a
/// pipeline: W or B of these stages micro-batch by micro-batch, later stages first. `of_step`: one sum has all
/// micro-batches of the step; else each micro-batch has a sum of its own, and only the order of stages counts.
std::optional<table_fault> find_reordering(const pipeline_table& t, const std::vector<uint32_t>& stages, bool of_step);

}  // namespace troupe::plan
