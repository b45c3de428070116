// The common part of the families: units in the order embedding, blocks of attention and MLP, head; a family defines
// what each segment computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "models/families/language_model.hpp"
#include "models/layers/next_layer.hpp"
#include "models/layers/sequence_parts.hpp"

namespace troupe::models {

struct attention_input {  ///< of a block's attention
  at::Tensor qkv, past;
};

class family_model : public language_model {
 public:
  family_model(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns, const model_place& place);

  [[nodiscard]] const core::model_table& table() const override { return table_; }
  void read_copies() override;
  std::unique_ptr<segment_run> forward(uint32_t unit, uint32_t segment, const micro_batch& batch, const values& input,
                                       const parameter_binding& parameters) override;
  std::vector<float> next_token_logits(const micro_batch& batch, const at::Tensor& hidden,
                                       const parameter_binding& parameters) override;

 protected:
  /// Each takes its layers from the scope in the order of the table. Hidden states are (B, T, C).
  virtual std::unique_ptr<segment_run> embedding(segment_scope& scope) const = 0;
  /// Queries, keys and values (B, T, (heads + 2 kv_heads) * head_width), side by side, and the input for the residual
  /// path.
  virtual attention_input before_attention(segment_scope& scope, const at::Tensor& x) const = 0;
  /// The hidden state from what attention made of them.
  virtual at::Tensor behind_attention(segment_scope& scope, const at::Tensor& past, const at::Tensor& mixed) const = 0;
  virtual at::Tensor mlp(segment_scope& scope, const at::Tensor& x) const = 0;

  [[nodiscard]] const model_spec& spec() const { return spec_; }
  /// The segment's next norm and the `count` linear layers behind it.
  normed_outputs normed(segment_scope& scope, const at::Tensor& x, size_t count = 1) const {
    return next_normed(scope, x, spec_.norm_epsilon, count);
  }
  /// The heads of own columns, with their numbers in the model.
  [[nodiscard]] attention_shape own_heads(uint32_t unit) const;
  /// The rows of the vocabulary that embedding and head have here.
  [[nodiscard]] vocabulary_rows own_vocabulary() const { return models::own_vocabulary(spec_, place_); }

 private:
  /// Of rows; behind those of its own columns stand zeros where the vocabulary is cut unevenly.
  [[nodiscard]] at::Tensor logits(segment_scope& scope, const at::Tensor& x) const;
  values block(segment_scope& scope, uint32_t segment, const values& input) const;
  at::Tensor attention(segment_scope& scope, const at::Tensor& x) const;
  /// Of a cut sequence.
  [[nodiscard]] sequence_parts parts(const segment_scope& scope) const;
  values attention_in(segment_scope& scope, const at::Tensor& x) const;
  values attention_of_own_heads(segment_scope& scope, const values& input) const;
  at::Tensor attention_of_own_queries(segment_scope& scope, const values& input) const;
  values head(segment_scope& scope, const at::Tensor& x) const;
  [[nodiscard]] values loss(const segment_scope& scope, const at::Tensor& of_tokens, const values& input) const;

  model_spec spec_;
  uint64_t columns_;
  model_place place_;
  core::model_table table_;
};

std::unique_ptr<language_model> make_gpt2(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns,
                                          const model_place& place);
std::unique_ptr<language_model> make_llama(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns,
                                           const model_place& place, device::device_id device);

}  // namespace troupe::models
