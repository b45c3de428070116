// The common part of the families: units in the order embedding, blocks of attention and MLP, head; a family defines
// what each segment computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "kernels/layers/distillation.hpp"
#include "models/families/language_model.hpp"
#include "models/layers/dropout.hpp"
#include "models/layers/next_layer.hpp"
#include "models/segment/sequence_parts.hpp"

namespace troupe::models {

class family_model : public language_model {
 public:
  family_model(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns, const model_place& place);

  [[nodiscard]] const core::model_table& table() const override { return table_; }
  void read_copies(uint32_t first) override;
  /// From now on it is a part of `whole`, from unit `first_unit` on.
  void join(const core::model_table& whole, uint32_t first_unit);
  /// It learns from `teacher`, a part of the same table, of which `terms` say what it loses.
  void learn_from(std::shared_ptr<const family_model> teacher, const kernels::distillation_terms& terms);
  std::unique_ptr<segment_run> forward(uint32_t unit, uint32_t segment, const micro_batch& batch, const values& input,
                                       const parameter_binding& parameters) override;
  [[nodiscard]] bool copies_last_input(uint32_t unit, uint32_t segment) const override;
  [[nodiscard]] bool loss_comes_with_backward() const override { return spec_.head_tile_rows > 0; }
  std::vector<float> next_token_logits(const micro_batch& batch, const at::Tensor& hidden,
                                       const parameter_binding& parameters) override;

 protected:
  /// Each takes its layers from the scope in the order of the table. Hidden states are (B, T, C).
  virtual std::unique_ptr<segment_run> embedding(segment_scope& scope) const = 0;
  /// Linear layers between a norm and attention, and between a norm and the MLP's activation.
  [[nodiscard]] virtual size_t attention_inputs() const = 0;
  [[nodiscard]] virtual size_t mlp_inputs() const = 0;
  /// Queries, keys and values (B, T, (heads + 2 kv_heads) * head_width), side by side, of what these layers put out.
  virtual at::Tensor packed(segment_scope& scope, const std::vector<at::Tensor>& projected) const = 0;
  /// What the MLP adds to the residual path, before dropout.
  virtual at::Tensor mlp_output(segment_scope& scope, const std::vector<at::Tensor>& projected) const = 0;
  /// The MLP's last layer, whose rows are multiplied in panels, as its first ones' are.
  static projection mlp_end(segment_scope& scope);
  /// The residual path, with `y` added, after dropout where the family has it.
  virtual at::Tensor add(segment_scope& scope, const at::Tensor& past, at::Tensor&& y, dropout_site site) const = 0;

  [[nodiscard]] const model_spec& spec() const { return spec_; }
  /// The heads of own columns, with their numbers in the model.
  [[nodiscard]] attention_shape own_heads(uint32_t unit) const;
  /// The rows of the vocabulary that embedding and head have here.
  [[nodiscard]] vocabulary_rows own_vocabulary() const { return models::own_vocabulary(spec_, place_); }

 private:
  /// The segment's next norm and the `count` linear layers behind it, or the norm alone.
  [[nodiscard]] normed_outputs normed(segment_scope& scope, const at::Tensor& x, size_t count,
                                      panel_sums panels = panel_sums::none) const {
    return next_normed(scope, x, spec_.norm_epsilon, count, panels);
  }
  [[nodiscard]] bool norms_are_cut() const { return place_.split.norms && place_.split.degree > 1; }

  values block(segment_scope& scope, uint32_t segment, const values& input) const;
  at::Tensor attention(segment_scope& scope, const at::Tensor& x) const;
  /// What attention adds to the residual path, before dropout, of `mixed` heads.
  at::Tensor attention_output(segment_scope& scope, const at::Tensor& mixed) const;
  at::Tensor mlp(segment_scope& scope, const at::Tensor& x) const;
  /// The same in row tiles, before it is added to the residual path; behind `norm`, if there is one.
  normed_outputs mlp_in_tiles(segment_scope& scope, const at::Tensor& x, std::optional<row_norm> norm) const;

  // Where a sequence is cut.
  [[nodiscard]] sequence_parts parts(const segment_scope& scope) const;
  values attention_in(segment_scope& scope, const at::Tensor& x) const;
  values attention_of_own_heads(segment_scope& scope, const values& input) const;
  at::Tensor attention_of_own_queries(segment_scope& scope, const values& input) const;

  // Where norms are cut.
  [[nodiscard]] sequence_parts norm_parts(const segment_scope& scope) const;
  [[nodiscard]] at::Tensor own_columns(segment_scope& scope, const at::Tensor& sum) const;
  values block_of_own_columns(segment_scope& scope, uint32_t segment, const values& input) const;
  /// A norm of own columns, in the part that is collected, behind the residual path.
  values normed_columns(segment_scope& scope, const at::Tensor& x) const;
  /// The layers behind such a norm, on the columns that were collected.
  [[nodiscard]] static std::vector<at::Tensor> projected(segment_scope& scope, const at::Tensor& x,
                                                         std::vector<projection> layers);
  /// Own columns of the residual path, with the sum of what all ranks gave added.
  at::Tensor add_columns(segment_scope& scope, const values& input, dropout_site site) const;

  /// What the teacher's head makes its logits of, where there is one: the scope's next layers.
  [[nodiscard]] std::optional<taught_head> taught(segment_scope& scope) const;
  values head(segment_scope& scope, uint32_t segment, const values& input) const;
  [[nodiscard]] bool tiles_head(const micro_batch& batch) const;
  /// The factor of the mean over a rank's own columns in what it gives.
  [[nodiscard]] double share_of_mean(const segment_scope& scope) const;
  /// Of rows; behind those of its own columns stand zeros where the vocabulary is cut unevenly.
  [[nodiscard]] at::Tensor logits(segment_scope& scope, const at::Tensor& x) const;
  /// The loss of `of_tokens`, logits of a hidden state, or what it needs of other ranks.
  [[nodiscard]] values losses(segment_scope& scope, const at::Tensor& of_tokens, const at::Tensor& hidden) const;
  [[nodiscard]] values loss(const segment_scope& scope, const at::Tensor& of_tokens, const values& input) const;

  model_spec spec_;
  uint64_t columns_;
  model_place place_;
  core::model_table table_;
  uint32_t first_unit_ = 0;                      // in it
  std::shared_ptr<const family_model> teacher_;  // null: none
  kernels::distillation_terms terms_;            // of what it teaches
};

std::unique_ptr<family_model> make_gpt2(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns,
                                        const model_place& place);
std::unique_ptr<family_model> make_llama(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns,
                                         const model_place& place, device::device_id device);

}  // namespace troupe::models
