// Proves a table of a pipeline before anything runs. Owns the rules; leaves their time to timing.hpp and the file that
// a table came from to text.hpp.
#pragma once

#include <optional>
#include <string>

#include "plan/action.hpp"

namespace troupe::plan {

/// What is wrong with a table: the rank whose order has it, and a sentence that names the action.
struct table_fault {
  uint32_t rank = 0;
  std::string text;
};

/// Nothing, if the table can be run:
/// - a stage is computed on its own rank; F of each of its micro-batches stands once, and, if the table trains, either
///   B or I and W;
/// - F comes after F of the stage before, B and I after B or I of the stage behind and after F, W after I;
/// - the ranks never wait for each other in a circle; sends do not wait, receives do;
/// - if it has transfers, each output and gradient for another rank is sent once and received once, none for the same;
/// - a stage that is gathered (UNSHARD) computes only while it is; REDUCE_GRAD stands once, behind the last W or B.
/// Otherwise the first fault.
std::optional<table_fault> find_fault(const pipeline_table& t);

/// The first action that leaves the order of micro-batches in F, in B and I, or in W and B of its stage, if one does:
/// such a table adds gradients in another order, so bits differ.
std::optional<table_fault> find_reordering(const pipeline_table& t);

/// The same of a sum that several stages of one rank write to, given in the order of the model: the first W or B of
/// these that does not come micro-batch by micro-batch, later stages first, as without a cut. `of_step`: one sum is of
/// the whole step; else each micro-batch has its own, and only the order of stages counts.
std::optional<table_fault> find_reordering(const pipeline_table& t, const std::vector<uint32_t>& stages, bool of_step);

}  // namespace troupe::plan
