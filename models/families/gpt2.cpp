// GPT-2: learned positions, layer norm before each half of a block, one packed projection for attention.
#include "models/families/family_model.hpp"
#include "models/layers/dropout.hpp"
#include "models/layers/embedding.hpp"

namespace troupe::models {
namespace {

class gpt2 final : public family_model {
 public:
  using family_model::family_model;

 protected:
  std::unique_ptr<segment_run> embedding(segment_scope& scope) const override {
    const weight tokens = next_weight(scope, core::layer_kind::embedding);
    const weight positions = next_weight(scope, core::layer_kind::position_embedding);
    return run_embedding(scope, tokens, own_vocabulary(), positions, spec().embedding_dropout);
  }

  attention_input before_attention(segment_scope& scope, const at::Tensor& x) const override {
    const auto [qkv, past] = normed(scope, x);
    return {qkv.front(), past};
  }

  at::Tensor behind_attention(segment_scope& scope, const at::Tensor& past, const at::Tensor& mixed) const override {
    return add_dropped(scope, past, linear(scope, mixed, next_output(scope)), dropout_site::attention_output,
                       spec().residual_dropout);
  }

  at::Tensor mlp(segment_scope& scope, const at::Tensor& x) const override {
    const auto [inner, past] = normed(scope, x);
    at::Tensor out = activated_linear(scope, inner.front(), spec().act, next_output(scope));
    return add_dropped(scope, past, std::move(out), dropout_site::mlp_output, spec().residual_dropout);
  }
};

}  // namespace

std::unique_ptr<language_model> make_gpt2(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns,
                                          const model_place& place) {
  return std::make_unique<gpt2>(spec, type, rows, columns, place);
}

}  // namespace troupe::models
