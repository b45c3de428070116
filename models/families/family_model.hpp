// Computes the segments of all families: units in the order embedding, blocks of attention and MLP, head. The family's
// row (families/family.hpp) determines which positions, norms and layers a model has.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "kernels/layers/cross_entropy.hpp"
#include "kernels/layers/distillation.hpp"
#include "models/families/language_model.hpp"
#include "models/layers/dropout.hpp"
#include "models/layers/next_layer.hpp"
#include "models/layers/rotary.hpp"
#include "models/segment/sequence_parts.hpp"

namespace troupe::models {

/// Returns the numbers that all norms of a model share.
inline norm_numbers norm_numbers_of(const model_spec& spec) { return {spec.norm_epsilon, spec.family->norm_shift}; }

class family_model final : public language_model {
 public:
  family_model(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns, const model_place& place,
               device::device_id device);

  [[nodiscard]] const core::model_table& table() const override { return table_; }
  void read_copies(uint32_t first) override;
  /// Makes this model, a teacher in distillation, use the joint table `whole` of teacher and student; its units begin
  /// at unit `first_unit` of that table.
  void join(const core::model_table& whole, uint32_t first_unit);
  /// Makes this model a student of `teacher`, whose units are in the same table; `terms` weights the losses against
  /// data and teacher.
  void learn_from(std::shared_ptr<const family_model> teacher, const kernels::distillation_terms& terms);
  std::unique_ptr<segment_run> forward(uint32_t unit, uint32_t segment, const micro_batch& batch, const values& input,
                                       const parameter_binding& parameters) override;
  [[nodiscard]] bool copies_last_input(uint32_t unit, uint32_t segment) const override;
  [[nodiscard]] bool loss_comes_with_backward() const override { return spec_.head_tile_rows > 0; }
  std::vector<float> next_token_logits(const micro_batch& batch, const at::Tensor& hidden,
                                       const parameter_binding& parameters) override;

 private:
  /// Computes the embedding's segment. All functions of this class take the parameters of their layers from `scope`, in
  /// the order of the table; hidden states are (B, T, C).
  [[nodiscard]] std::unique_ptr<segment_run> embedding(segment_scope& scope) const;
  /// Returns queries, keys and values of each token next to each other, (B, T, (heads + 2 kv_heads) * head_width), from
  /// the outputs `projected` of the linear layers before attention; rotates queries and keys if the family has rotary
  /// positions.
  at::Tensor packed(segment_scope& scope, const std::vector<at::Tensor>& projected) const;
  /// Returns queries, keys and values (B, T, ..) from `qkv`, the output of one linear layer of all three.
  [[nodiscard]] std::vector<at::Tensor> taken_apart(const at::Tensor& qkv, const attention_shape& heads) const;
  /// Returns how the heads of the block that is unit `unit` are rotated in sequences of `columns` tokens.
  [[nodiscard]] head_rotation rotation_in(uint32_t unit, uint64_t columns) const;
  /// Applies the segment's next norm to `heads`, (B, T, any number of heads * head_width): to each head, or to all
  /// heads of a token together.
  at::Tensor normed_queries(segment_scope& scope, const at::Tensor& heads) const;
  /// Returns the MLP's output, before dropout, from the outputs `projected` of its first layers.
  at::Tensor mlp_output(segment_scope& scope, const std::vector<at::Tensor>& projected) const;
  /// Returns the MLP's last linear layer. Its rows are multiplied in panels of a fixed number of rows
  /// (models/table/row_tiles.hpp), as those of the MLP's first layers are.
  static projection mlp_end(segment_scope& scope);
  /// Returns the sum of `past`, the residual path, and `y`. Before, applies to `y` the segment's next norm, the model's
  /// factor and dropout, each if the family has it at this place.
  at::Tensor add(segment_scope& scope, const at::Tensor& past, at::Tensor&& y, dropout_site site) const;

  /// Returns the number of attention heads that this rank computes in `unit`, and the index of its first head in the
  /// whole model, on which dropout masks depend.
  [[nodiscard]] attention_shape own_heads(uint32_t unit) const;
  /// Returns which rows of the vocabulary (tokens) this rank has in its embedding and its head.
  [[nodiscard]] vocabulary_rows own_vocabulary() const { return models::own_vocabulary(spec_, place_); }

  /// Computes the segment's next norm and the `count` linear layers that read it, or the norm alone if `count` is 0.
  [[nodiscard]] normed_outputs normed(segment_scope& scope, const at::Tensor& x, size_t count,
                                      panel_sums panels = panel_sums::none) const {
    return next_normed(scope, x, norm_numbers_of(spec_), count, panels);
  }
  [[nodiscard]] bool norms_are_cut() const { return place_.split.norms && place_.split.degree > 1; }

  values block(segment_scope& scope, uint32_t segment, const values& input) const;
  /// Returns the halves of the scope's block with a norm after them that reads a sum over tensor-parallel ranks.
  [[nodiscard]] block_split norms_sum_of(const segment_scope& scope) const;
  values attention(segment_scope& scope, const at::Tensor& x) const;
  /// Computes the linear layers before attention, if tensor-parallel ranks form norms of queries and keys together.
  /// Returns the residual path, queries, keys, values, and the sums of squares that the ranks exchange.
  [[nodiscard]] values attention_before_norms(segment_scope& scope, const at::Tensor& x) const;
  /// Computes attention from these tensors, of which the last one has the sums of all ranks.
  [[nodiscard]] values attention_of_joined_norms(segment_scope& scope, const values& input) const;
  /// Returns the residual path of a segment with the input `x`: the segment's next norm of `x` if the family norms the
  /// path, else `x`.
  [[nodiscard]] at::Tensor path_of(segment_scope& scope, const at::Tensor& x) const;
  /// Computes the linear layers before attention for `x`, after the norm before them if the family has it.
  [[nodiscard]] normed_outputs attention_inputs(segment_scope& scope, const at::Tensor& x) const;
  /// Returns what attention adds to the residual path, before dropout: the output layer applied to `mixed`, the
  /// weighted values of all heads.
  at::Tensor attention_output(segment_scope& scope, const at::Tensor& mixed) const;
  /// Returns the segment's output: the sum of `past`, the residual path, and `y`, attention's output; or summand(). If
  /// the model computes the MLP from the same residual path, the MLP's output is added, too.
  values after_attention(segment_scope& scope, const at::Tensor& past, at::Tensor&& y) const;
  /// Returns the outputs of a half of a block if the norm after it reads the sum of `y` over tensor-parallel ranks: the
  /// residual path `past`, then this rank's `y`. Only one rank passes the gradient of `past` on, because the gradient
  /// of the half's input is summed over the ranks, too.
  static values summand(const segment_scope& scope, const at::Tensor& past, at::Tensor&& y);
  values mlp(segment_scope& scope, const at::Tensor& x) const;
  /// Returns the MLP's output, before it is normed, dropped out and added to the residual path, and the residual path.
  [[nodiscard]] normed_outputs mlp_sum(segment_scope& scope, const at::Tensor& input) const;
  /// Computes the MLP a tile of rows at a time, before its result is added to the residual path; applies `norm` first,
  /// if it is given.
  normed_outputs mlp_in_tiles(segment_scope& scope, const at::Tensor& x, std::optional<row_norm> norm) const;

  // Returns the layout of columns and heads that the ranks of a sequence group exchange (each rank has some columns,
  // i.e. tokens, of every sample).
  [[nodiscard]] sequence_parts parts(const segment_scope& scope) const;
  values attention_in(segment_scope& scope, const at::Tensor& x) const;
  values attention_of_own_heads(segment_scope& scope, const values& input) const;
  values attention_of_own_queries(segment_scope& scope, const values& input) const;

  // Returns the layout of columns that the ranks of a tensor group exchange if each computes norms for its own columns
  // (tokens) only.
  [[nodiscard]] sequence_parts norm_parts(const segment_scope& scope) const;
  [[nodiscard]] at::Tensor own_columns(segment_scope& scope, const at::Tensor& sum) const;
  values block_of_own_columns(segment_scope& scope, uint32_t segment, const values& input) const;
  /// Computes the next norm for this rank's own columns (tokens); the following segment gathers the columns of all
  /// ranks. Returns the residual path, then the norm's output.
  values normed_columns(segment_scope& scope, const at::Tensor& x) const;
  /// Returns the outputs of `layers` for `x`, the norm's output, which was gathered from all ranks.
  [[nodiscard]] static std::vector<at::Tensor> projected(segment_scope& scope, const at::Tensor& x,
                                                         std::vector<projection> layers);
  /// Returns the residual path in this rank's own columns (tokens). `input` has the old residual path and the block's
  /// output, summed over all ranks.
  at::Tensor add_columns(segment_scope& scope, const values& input, dropout_site site) const;

  /// Returns the teacher's head, whose layers are the next ones of `scope`, and the teacher's hidden state; nullopt
  /// without a teacher or outside of training.
  [[nodiscard]] std::optional<taught_head> taught(segment_scope& scope) const;
  values head(segment_scope& scope, uint32_t segment, const values& input) const;
  [[nodiscard]] bool tiles_head(const micro_batch& batch) const;
  /// Returns the factor of the mean loss over a rank's own columns (tokens). With it, the mean over all ranks is the
  /// mean over all columns, and the mean over a step's micro-batches is the mean over the step's targets.
  [[nodiscard]] double loss_factor(const segment_scope& scope) const;
  /// Returns how the loss of a row is formed: as the job says in training, else the cross-entropy alone.
  [[nodiscard]] kernels::loss_form loss_of_rows(const micro_batch& batch) const;
  /// Returns the input of the head's last norm and linear layer: the hidden state `x`, or the output of the transform
  /// in an encoder's head.
  [[nodiscard]] at::Tensor head_input(segment_scope& scope, const at::Tensor& x) const;
  /// Returns the logits of the hidden states `hidden`, for this rank's rows of the vocabulary; if the vocabulary is
  /// split unevenly, zeros follow them.
  [[nodiscard]] at::Tensor logits(segment_scope& scope, const at::Tensor& hidden) const;
  /// Returns the logits of `y`, the output of the head's norm in the columns of all ranks.
  [[nodiscard]] at::Tensor logits_of_normed(segment_scope& scope, const at::Tensor& y) const;
  /// Returns the loss computed from the logits `of_tokens` of the hidden state `hidden`, or, if the vocabulary is split
  /// over ranks, the logits and the statistics of each row that other ranks need.
  [[nodiscard]] values losses(segment_scope& scope, const at::Tensor& of_tokens, const at::Tensor& hidden) const;
  [[nodiscard]] values loss(const segment_scope& scope, const at::Tensor& of_tokens, const values& input) const;

  model_spec spec_;
  // Cosines and sines of rotary positions; none: the family has learned positions.
  std::optional<rotary_angles> angles_;
  std::optional<rotary_angles>
      local_angles_;  // angles of the blocks with rotation::local; none: there are no such blocks
  // factor of the embedding's vectors, rounded to the model's type if the family requires that
  double embedding_scale_;
  uint64_t columns_;
  model_place place_;
  core::model_table table_;
  uint32_t first_unit_ = 0;  // index in table_.units of this model's first unit; above 0 after a teacher's units
  std::shared_ptr<const family_model> teacher_;  // the teacher, if this model is a student in distillation; else null
  kernels::distillation_terms terms_;            // weights of the losses against data and teacher
};

}  // namespace troupe::models
