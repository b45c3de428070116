// How a model is divided over tensor-parallel ranks: which halves (attention, MLP) of its blocks, and whether its
// vocabulary. Owns the rule by which widths follow from that; make_model_table (model_spec.hpp) makes the table with
// which a rank computes. No Torch here.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "core/layer_table.hpp"
#include "core/model_table.hpp"
#include "core/tp_plan.hpp"
#include "models/table/sequence_split.hpp"

namespace troupe::models {

struct model_spec;

/// Which of the two halves of a block, attention and MLP, are divided over ranks. A divided half is divided as a whole:
/// its linear layers that read the hidden state by their outputs, its last one by its inputs.
struct block_split {
  bool attention = true, mlp = true;
  bool operator==(const block_split&) const = default;
};

struct tensor_split {   ///< how a model is divided over tensor-parallel ranks
  uint32_t degree = 1;  ///< number of ranks; 1: the model is not divided
  uint64_t grain = 1;   ///< number of neighbouring elements of an MLP's inner width that stay on one rank
  /// True: the rows of the token embedding and of the head are divided by tokens of the vocabulary.
  bool vocabulary = true;
  /// True if each rank computes norms, dropout and the residual path for its own columns (tokens) of the micro-batch
  /// only ("Reducing Activation Recomputation in Large Transformer Models", arXiv:2205.05198, section 4.2.2). Requires
  /// that all blocks and the vocabulary are divided.
  bool norms = false;
  /// [block]: which of the block's attention and MLP are divided over ranks; in blocks beyond the end of the list both
  /// are.
  std::vector<block_split> blocks = {};
  bool operator==(const tensor_split&) const = default;

  [[nodiscard]] block_split of(uint32_t block) const { return block < blocks.size() ? blocks[block] : block_split{}; }
  /// Returns how the columns (tokens) of samples are divided over the ranks for norms; undivided if `norms` is false.
  [[nodiscard]] sequence_split of_columns() const { return {norms ? degree : 1}; }
};

struct model_place {  ///< a rank's position in the tensor and sequence groups that compute a model together
  tensor_split split = {};
  uint32_t coordinate = 0;  ///< index of the rank in its tensor group
  sequence_split sequence = {};
  uint32_t sequence_coordinate = 0;
};

/// Returns the sizes of a tensor-parallel rank's part of a block, those of the widest rank. Query heads stay on the
/// rank of the key-value head that they share.
model_spec local_block(const model_spec& whole, const tensor_split& split, uint32_t block);
/// Returns the largest inner width of an MLP on any tensor rank.
uint64_t widest_inner(const model_spec& whole, const tensor_split& split);
/// Returns the halves of a block with a norm behind them that reads a sum over tensor-parallel ranks. Such a norm is
/// computed by the segment after the one that ends in the sum: a segment of its own or, if norms are divided, the one
/// that computes norms of a rank's own columns.
block_split norms_of_sums(const model_spec& whole, const tensor_split& split, uint32_t block);
/// True if a block's norms of queries and of keys are formed over the heads of all ranks: ranks exchange sums of
/// squares before these norms, and attention is two segments.
bool joins_norms(const model_spec& whole, const tensor_split& split, uint32_t block);
/// Returns the sizes of a tensor-parallel rank's part of the embedding and the head, those of the widest rank.
model_spec local_ends(const model_spec& whole, const tensor_split& split);

/// True if `l`, one of the `layers` of an embedding's or a head's segment, has a row for each token of the vocabulary:
/// the embedding of tokens, and the last linear layer of a head.
bool has_vocabulary(std::span<const core::layer_info> layers, const core::layer_info& l);

/// Returns how each parameter of `whole`, the table of an undivided model (with or without copies of tied weights), is
/// divided over ranks. If a teacher's units precede the model's, `of_teacher` says how their blocks are divided; a
/// model with a teacher requires a `split` that does not divide embedding and head.
core::tp_plan tp_plan_of(const core::model_table& whole, const tensor_split& split,
                         const tensor_split& of_teacher = {});

/// Rows of the vocabulary (tokens) that a rank has: the first, their number, and the size of the vocabulary.
struct vocabulary_rows {
  int64_t first = 0, count = 0, whole = 0;
  [[nodiscard]] bool are_all() const { return count == whole; }
};

/// Returns the rows of the vocabulary that the rank with the coordinates `place` has.
vocabulary_rows own_vocabulary(const model_spec& whole, const model_place& place);

/// Sizes of the tensors that tensor-parallel ranks exchange for one micro-batch.
struct exchanged_bytes {
  uint64_t hidden = 0;      ///< bytes of a hidden state of one micro-batch
  uint64_t own = 0;         ///< bytes of the part of a hidden state in a rank's own columns; 0: norms are not divided
  uint64_t rows = 0;        ///< number of rows (tokens) of a hidden state
  uint64_t row_number = 0;  ///< bytes of one number per row, in the type in which losses are computed
};

/// Adds to `local`, a rank's table, which tensors the ranks exchange after each segment, and whether a parameter is
/// divided over ranks, equal on them, or needs its gradient summed over them. A head whose vocabulary is divided
/// becomes two segments, the logits and the loss.
void add_exchanges(const core::tp_plan& cut, const exchanged_bytes& bytes, core::model_table& local);

/// Checks that a model can be divided over tensor-parallel ranks. Errors (bad_input): more ranks than attention heads,
/// elements of an MLP's inner width, rows of the vocabulary or `columns` of a sample, if these are divided; norms that
/// are divided although some block or the vocabulary is not, or although norms of queries and keys span all heads.
core::result<void> check_split(const model_spec& whole, const tensor_split& split,
                               uint64_t columns = std::numeric_limits<uint64_t>::max());

}  // namespace troupe::models
