// How a family's model is cut over the tensor axis: which halves of its blocks, whether its vocabulary. Owns the rule
// that makes widths of it; the table that a rank computes with is model_spec.hpp's make_model_table. No Torch here.
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

/// A half is cut as a whole: the layers that read the hidden state by outputs, the one that gives it back by inputs.
struct block_split {
  bool attention = true, mlp = true;
  bool operator==(const block_split&) const = default;
};

struct tensor_split {      ///< of a family's model
  uint32_t degree = 1;     ///< ranks; 1: nothing is cut
  uint64_t grain = 1;      ///< of an MLP's inner width
  bool vocabulary = true;  ///< rows of the token embedding and of the head
  /// Norms, dropout and the residual path, which each rank computes for its own columns of the micro-batch ("Reducing
  /// Activation Recomputation in Large Transformer Models", arXiv:2205.05198, section 4.2.2). Wants all else cut.
  bool norms = false;
  std::vector<block_split> blocks = {};  ///< [block]; of those that are not there both halves are cut
  bool operator==(const tensor_split&) const = default;

  [[nodiscard]] block_split of(uint32_t block) const { return block < blocks.size() ? blocks[block] : block_split{}; }
  /// The columns that each rank computes norms of.
  [[nodiscard]] sequence_split of_columns() const { return {norms ? degree : 1}; }
};

struct model_place {  ///< a rank's part in computing a model
  tensor_split split = {};
  uint32_t coordinate = 0;  ///< on the tensor axis
  sequence_split sequence = {};
  uint32_t sequence_coordinate = 0;
};

/// The spec that a rank computes a block by: widths are those of the rank that has most. Heads go with the key-value
/// heads that they share.
model_spec local_block(const model_spec& whole, const tensor_split& split, uint32_t block);
/// The inner width of its widest MLP.
uint64_t widest_inner(const model_spec& whole, const tensor_split& split);
/// The same of embedding and head.
model_spec local_ends(const model_spec& whole, const tensor_split& split);

/// The cut of each parameter of `whole`, a family's table without cuts, with or without copies. Of units in front of it
/// that are a teacher's the blocks are cut as `of_teacher` says; ends of a model that has a teacher are whole.
core::tp_plan tp_plan_of(const core::model_table& whole, const tensor_split& split,
                         const tensor_split& of_teacher = {});

struct vocabulary_rows {  ///< that a rank has, of all
  int64_t first = 0, count = 0, whole = 0;
  [[nodiscard]] bool are_all() const { return count == whole; }
};

/// Of the rank at `place`.
vocabulary_rows own_vocabulary(const model_spec& whole, const model_place& place);

/// Bytes of a micro-batch.
struct exchanged_bytes {
  uint64_t hidden = 0;      ///< a hidden state
  uint64_t own = 0;         ///< of a rank's own columns, where norms are cut
  uint64_t rows = 0;        ///< tokens of a hidden state
  uint64_t row_number = 0;  ///< a number for each token, in the type of losses
};

/// Says in a rank's table what is exchanged behind its segments, and what its parameters are to the others. A head
/// whose vocabulary is cut becomes two segments, its logits and their loss.
void add_exchanges(const core::tp_plan& cut, const exchanged_bytes& bytes, core::model_table& local);

/// Refused (bad_input): more ranks than attention heads, elements of an MLP's inner width, rows of the vocabulary or
/// `columns` of a sample, where these are cut; norms that are cut where something else is not.
core::result<void> check_split(const model_spec& whole, const tensor_split& split,
                               uint64_t columns = std::numeric_limits<uint64_t>::max());

}  // namespace troupe::models
