// GPT-2: learned positions, layer norm before each half of a block, one packed projection for attention.
#include "models/dropout.hpp"
#include "models/embedding.hpp"
#include "models/family_model.hpp"

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
    const auto [in, past] = normed(scope, x);
    const at::Tensor mixed = causal_attention(scope, conv1d(scope, in), heads(), spec().attention_dropout);
    return add_dropped(scope, past, conv1d(scope, mixed), dropout_site::attention_output, spec().residual_dropout);
  }

  at::Tensor mlp(segment_scope& scope, const at::Tensor& x) const override {
    const auto [in, past] = normed(scope, x);
    const at::Tensor inner = conv1d(scope, in);
    const weight w = scope.next(), bias = scope.next();
    at::Tensor out = activated_linear(scope, inner, spec().act, w, bias, weight_layout::in_out);
    return add_dropped(scope, past, std::move(out), dropout_site::mlp_output, spec().residual_dropout);
  }

  at::Tensor logits(segment_scope& scope, const at::Tensor& x) const override {
    const at::Tensor last = normed(scope, x).y;
    return linear(scope, last.reshape({-1, x.size(-1)}), scope.next(), std::nullopt, weight_layout::out_in);
  }

 private:
  normed_rows normed(segment_scope& scope, const at::Tensor& x) const {
    const weight w = scope.next(), bias = scope.next();
    return layer_norm(scope, x, w, bias, spec().norm_epsilon);
  }
  static at::Tensor conv1d(segment_scope& scope, const at::Tensor& x) {
    const weight w = scope.next(), bias = scope.next();
    return linear(scope, x, w, bias, weight_layout::in_out);
  }
};

}  // namespace

std::unique_ptr<language_model> make_gpt2(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns) {
  return std::make_unique<gpt2>(spec, type, rows, columns);
}

}  // namespace troupe::models
