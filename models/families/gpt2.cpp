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
    const weight tokens = scope.next(), positions = scope.next();
    return run_embedding(scope, tokens, positions, spec().embedding_dropout);
  }

  at::Tensor attention(segment_scope& scope, const at::Tensor& x) const override {
    const auto [qkv, past] = normed_conv1d(scope, x);
    const at::Tensor mixed = causal_attention(scope, qkv.front(), heads(), spec().attention_dropout);
    return add_dropped(scope, past, linear(scope, mixed, conv1d(scope)), dropout_site::attention_output,
                       spec().residual_dropout);
  }

  at::Tensor mlp(segment_scope& scope, const at::Tensor& x) const override {
    const auto [inner, past] = normed_conv1d(scope, x);
    at::Tensor out = activated_linear(scope, inner.front(), spec().act, conv1d(scope));
    return add_dropped(scope, past, std::move(out), dropout_site::mlp_output, spec().residual_dropout);
  }

  at::Tensor logits(segment_scope& scope, const at::Tensor& x) const override {
    row_norm norm = layer_norm(scope);
    return normed_linear(scope, as_rows(x), std::move(norm), {{scope.next(), std::nullopt, weight_layout::out_in}})
        .y.front();
  }

 private:
  row_norm layer_norm(segment_scope& scope) const {
    const weight w = scope.next(), bias = scope.next();
    return {w, bias, spec().norm_epsilon};
  }
  static projection conv1d(segment_scope& scope) {
    const weight w = scope.next(), bias = scope.next();
    return {w, bias, weight_layout::in_out};
  }
  normed_outputs normed_conv1d(segment_scope& scope, const at::Tensor& x) const {
    row_norm norm = layer_norm(scope);
    return normed_linear(scope, x, std::move(norm), {conv1d(scope)});
  }
};

}  // namespace

std::unique_ptr<language_model> make_gpt2(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns) {
  return std::make_unique<gpt2>(spec, type, rows, columns);
}

}  // namespace troupe::models
