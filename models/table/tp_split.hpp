// How a family's model is split over the tensor axis: which halves of its blocks, and whether its vocabulary. Owns the
// rule that derives widths from that; model_spec.hpp's make_model_table makes the table that a rank computes with. No
// Torch here.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "core/model_table.hpp"
#include "core/tp_plan.hpp"
#include "models/table/sequence_split.hpp"

namespace troupe::models {

struct model_spec;

/// Halves of a block that are cut. A half is cut as a whole: the layers that read the hidden state by outputs, the
/// layer that returns it by inputs.
struct block_split {
  bool attention = true, mlp = true;
  bool operator==(const block_split&) const = default;
};

struct tensor_split {      ///< split of a family's model
  uint32_t degree = 1;     ///< number of ranks; 1: nothing is cut
  uint64_t grain = 1;      ///< number of neighbouring elements of an MLP's inner width that no cut divides
  bool vocabulary = true;  ///< true: rows of the token embedding and of the head are cut
  /// True if each rank computes norms, dropout and the residual path for its own columns of the micro-batch ("Reducing
  /// Activation Recomputation in Large Transformer Models", arXiv:2205.05198, section 4.2.2). Requires all else to be
  /// cut.
  bool norms = false;
  std::vector<block_split> blocks = {};  ///< [block]; both halves of blocks beyond the end are cut
  bool operator==(const tensor_split&) const = default;

  [[nodiscard]] block_split of(uint32_t block) const { return block < blocks.size() ? blocks[block] : block_split{}; }
  /// Returns how the columns of samples are distributed over the ranks for norms.
  [[nodiscard]] sequence_split of_columns() const { return {norms ? degree : 1}; }
};

struct model_place {  ///< a rank's part in computing a model
  tensor_split split = {};
  uint32_t coordinate = 0;  ///< coordinate on the tensor axis
  sequence_split sequence = {};
  uint32_t sequence_coordinate = 0;
};

/// Returns the spec by which a rank computes a block: widths are those of the widest rank. Heads stay with the
/// key-value heads that they share.
model_spec local_block(const model_spec& whole, const tensor_split& split, uint32_t block);
/// Returns the largest inner width of an MLP on any tensor rank.
uint64_t widest_inner(const model_spec& whole, const tensor_split& split);
/// Returns the spec by which a rank computes embedding and head: widths are those of the widest rank.
model_spec local_ends(const model_spec& whole, const tensor_split& split);

/// Returns the cut of each parameter of `whole`, the table of an uncut model, with or without copies of tied weights.
/// If a teacher's units precede the model's, `of_teacher` defines how their blocks are cut; a model with a teacher
/// requires a `split` that does not cut embedding and head.
core::tp_plan tp_plan_of(const core::model_table& whole, const tensor_split& split,
                         const tensor_split& of_teacher = {});

struct vocabulary_rows {  ///< rows of the vocabulary that a rank has
  int64_t first = 0, count = 0, whole = 0;
  [[nodiscard]] bool are_all() const { return count == whole; }
};

/// Returns the rows of the vocabulary that the rank at `place` holds.
vocabulary_rows own_vocabulary(const model_spec& whole, const model_place& place);

/// Sizes of the tensors that tensor-parallel ranks exchange for one micro-batch.
struct exchanged_bytes {
  uint64_t hidden = 0;      ///< bytes of a hidden state of one micro-batch
  uint64_t own = 0;         ///< bytes of the hidden state in a rank's own columns; 0: norms are not cut
  uint64_t rows = 0;        ///< number of tokens of a hidden state
  uint64_t row_number = 0;  ///< bytes of one number for each token, in the type of losses
};

/// Adds to a rank's table the exchanges after its segments, and how its parameters relate to those of other ranks. A
/// head whose vocabulary is cut becomes two segments, its logits and their loss.
void add_exchanges(const core::tp_plan& cut, const exchanged_bytes& bytes, core::model_table& local);

/// Checks that a model can be split. Errors (bad_input): more ranks than attention heads, elements of an MLP's inner
/// width, rows of the vocabulary or `columns` of a sample, if these are cut; norms that are cut while something else is
/// not.
core::result<void> check_split(const model_spec& whole, const tensor_split& split,
                               uint64_t columns = std::numeric_limits<uint64_t>::max());

}  // namespace troupe::models
