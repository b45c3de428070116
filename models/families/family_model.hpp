// Computes the segments of all families: units in the order embedding, blocks of attention and MLP, head. The family's
// row (families/family.hpp) determines which positions, norms and layers a model has.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "kernels/layers/distillation.hpp"
#include "models/families/language_model.hpp"
#include "models/layers/dropout.hpp"
#include "models/layers/next_layer.hpp"
#include "models/layers/rotary.hpp"
#include "models/segment/sequence_parts.hpp"

namespace troupe::models {

class family_model final : public language_model {
 public:
  family_model(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns, const model_place& place,
               device::device_id device);

  [[nodiscard]] const core::model_table& table() const override { return table_; }
  void read_copies(uint32_t first) override;
  /// Makes this model, a teacher, compute as part of the table `whole`, from unit `first_unit` on.
  void join(const core::model_table& whole, uint32_t first_unit);
  /// Makes this model learn from `teacher`, a part of the same table; `terms` define the loss against the teacher.
  void learn_from(std::shared_ptr<const family_model> teacher, const kernels::distillation_terms& terms);
  std::unique_ptr<segment_run> forward(uint32_t unit, uint32_t segment, const micro_batch& batch, const values& input,
                                       const parameter_binding& parameters) override;
  [[nodiscard]] bool copies_last_input(uint32_t unit, uint32_t segment) const override;
  [[nodiscard]] bool loss_comes_with_backward() const override { return spec_.head_tile_rows > 0; }
  std::vector<float> next_token_logits(const micro_batch& batch, const at::Tensor& hidden,
                                       const parameter_binding& parameters) override;

 private:
  /// Computes the embedding's segment. All functions of this class take their layers from the scope in the order of the
  /// table; hidden states are (B, T, C).
  [[nodiscard]] std::unique_ptr<segment_run> embedding(segment_scope& scope) const;
  /// Returns queries, keys and values (B, T, (heads + 2 kv_heads) * head_width), next to each other, from the outputs
  /// of the layers before attention.
  at::Tensor packed(segment_scope& scope, const std::vector<at::Tensor>& projected) const;
  /// Returns the MLP's contribution to the residual path, before dropout.
  at::Tensor mlp_output(segment_scope& scope, const std::vector<at::Tensor>& projected) const;
  /// Returns the MLP's last layer, whose rows are multiplied panel by panel (models/table/row_tiles.hpp), like the rows
  /// of its first layers.
  static projection mlp_end(segment_scope& scope);
  /// Returns `past`, the residual path, plus `y`, to which dropout was applied if the family has it.
  at::Tensor add(segment_scope& scope, const at::Tensor& past, at::Tensor&& y, dropout_site site) const;

  /// Returns the heads of this rank's columns, with their numbers in the model.
  [[nodiscard]] attention_shape own_heads(uint32_t unit) const;
  /// Returns the rows of the vocabulary that embedding and head have on this rank.
  [[nodiscard]] vocabulary_rows own_vocabulary() const { return models::own_vocabulary(spec_, place_); }

  /// Computes the segment's next norm and the `count` linear layers after it, or the norm alone if `count` is 0.
  [[nodiscard]] normed_outputs normed(segment_scope& scope, const at::Tensor& x, size_t count,
                                      panel_sums panels = panel_sums::none) const {
    return next_normed(scope, x, spec_.norm_epsilon, count, panels);
  }
  [[nodiscard]] bool norms_are_cut() const { return place_.split.norms && place_.split.degree > 1; }

  values block(segment_scope& scope, uint32_t segment, const values& input) const;
  at::Tensor attention(segment_scope& scope, const at::Tensor& x) const;
  /// Returns attention's contribution to the residual path, before dropout, from the `mixed` heads.
  at::Tensor attention_output(segment_scope& scope, const at::Tensor& mixed) const;
  at::Tensor mlp(segment_scope& scope, const at::Tensor& x) const;
  /// Computes the MLP in row tiles, before it is added to the residual path; after `norm`, if there is one.
  normed_outputs mlp_in_tiles(segment_scope& scope, const at::Tensor& x, std::optional<row_norm> norm) const;

  // Returns the operations that move columns between the ranks over which a sequence is split.
  [[nodiscard]] sequence_parts parts(const segment_scope& scope) const;
  values attention_in(segment_scope& scope, const at::Tensor& x) const;
  values attention_of_own_heads(segment_scope& scope, const values& input) const;
  at::Tensor attention_of_own_queries(segment_scope& scope, const values& input) const;

  // Returns the operations that move columns between the ranks over which norms are split.
  [[nodiscard]] sequence_parts norm_parts(const segment_scope& scope) const;
  [[nodiscard]] at::Tensor own_columns(segment_scope& scope, const at::Tensor& sum) const;
  values block_of_own_columns(segment_scope& scope, uint32_t segment, const values& input) const;
  /// Computes a norm of this rank's columns, which are collected from all ranks later. Returns the residual path, then
  /// the norm.
  values normed_columns(segment_scope& scope, const at::Tensor& x) const;
  /// Computes linear layers on the columns of a norm that were collected from all ranks.
  [[nodiscard]] static std::vector<at::Tensor> projected(segment_scope& scope, const at::Tensor& x,
                                                         std::vector<projection> layers);
  /// Returns this rank's columns of the residual path, with the sum of all ranks' contributions added.
  at::Tensor add_columns(segment_scope& scope, const values& input, dropout_site site) const;

  /// Returns the teacher's head, which computes the teacher's logits, if there is a teacher: the scope's next layers.
  [[nodiscard]] std::optional<taught_head> taught(segment_scope& scope) const;
  values head(segment_scope& scope, uint32_t segment, const values& input) const;
  [[nodiscard]] bool tiles_head(const micro_batch& batch) const;
  /// Returns the factor on the mean over a rank's own columns in the rank's contribution to the loss.
  [[nodiscard]] double share_of_mean(const segment_scope& scope) const;
  /// Returns the logits of rows; zeros follow those of this rank's columns if the vocabulary is split unevenly.
  [[nodiscard]] at::Tensor logits(segment_scope& scope, const at::Tensor& x) const;
  /// Returns the loss of `of_tokens`, logits of a hidden state, or the numbers that other ranks need for it.
  [[nodiscard]] values losses(segment_scope& scope, const at::Tensor& of_tokens, const at::Tensor& hidden) const;
  [[nodiscard]] values loss(const segment_scope& scope, const at::Tensor& of_tokens, const values& input) const;

  model_spec spec_;
  std::optional<rotary_angles> angles_;  // angles of rotary positions; none: the family has learned positions
  uint64_t columns_;
  model_place place_;
  core::model_table table_;
  uint32_t first_unit_ = 0;                      // number in table_ of this model's first unit
  std::shared_ptr<const family_model> teacher_;  // null: no teacher
  kernels::distillation_terms terms_;            // terms of the loss against the teacher
};

}  // namespace troupe::models
