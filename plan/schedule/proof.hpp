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

/// Returns the first action that violates the order of micro-batches in F, in B and I, or in W and B of its stage;
/// nothing if no action does. Such a table adds gradients in another order, so that bits differ.
std::optional<table_fault> find_reordering(const pipeline_table& t);

/// Returns the first action that reorders a sum that several stages of one rank write to; nothing if no action does.
/// `stages` are in the order of the model. The order required is W or B of these stages micro-batch by micro-batch,
/// later stages first, as without a pipeline. `of_step`: one sum is of the whole step; else each micro-batch has its
/// own sum, and only the order of stages counts.
std::optional<table_fault> find_reordering(const pipeline_table& t, const std::vector<uint32_t>& stages, bool of_step);

}  // namespace troupe::plan
