// Llama: rotary positions, RMS norm before each half of a block, grouped queries, a gated MLP.
#include "models/embedding.hpp"
#include "models/family_model.hpp"
#include "models/rotary.hpp"

namespace troupe::models {
namespace {

class llama final : public family_model {
 public:
  llama(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns)
      : family_model(spec, type, rows, columns), angles_(spec.rope_theta, spec.head_width, columns, type) {}

 protected:
  std::unique_ptr<segment_run> embedding(segment_scope& scope) const override {
    return run_embedding(scope, scope.next(), std::nullopt, spec().embedding_dropout);
  }

  at::Tensor attention(segment_scope& scope, const at::Tensor& x) const override {
    const auto [in, past] = rms_norm(scope, x, scope.next(), spec().norm_epsilon);
    const at::Tensor q = project(scope, in, spec().attention_bias);
    const at::Tensor k = project(scope, in, spec().attention_bias);
    const at::Tensor v = project(scope, in, spec().attention_bias);
    const at::Tensor qkv = rotate_and_pack(scope, q, k, v, heads(), angles_);
    const at::Tensor mixed = causal_attention(scope, qkv, heads(), spec().attention_dropout);
    return project(scope, mixed, spec().attention_bias).add_(past);
  }

  at::Tensor mlp(segment_scope& scope, const at::Tensor& x) const override {
    const auto [in, past] = rms_norm(scope, x, scope.next(), spec().norm_epsilon);
    const at::Tensor gate = project(scope, in, spec().mlp_bias);
    const at::Tensor up = project(scope, in, spec().mlp_bias);
    const weight w = scope.next();
    return gated_linear(scope, gate, up, spec().act, w, scope.next_if(spec().mlp_bias), weight_layout::out_in)
        .add_(past);
  }

  at::Tensor logits(segment_scope& scope, const at::Tensor& x) const override {
    const at::Tensor last = rms_norm(scope, x, scope.next(), spec().norm_epsilon).y;
    return project(scope, last.reshape({-1, x.size(-1)}), false);
  }

 private:
  static at::Tensor project(segment_scope& scope, const at::Tensor& x, bool with_bias) {
    const weight w = scope.next();
    return linear(scope, x, w, scope.next_if(with_bias), weight_layout::out_in);
  }

  rotary_angles angles_;
};

}  // namespace

std::unique_ptr<language_model> make_llama(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns) {
  return std::make_unique<llama>(spec, type, rows, columns);
}

}  // namespace troupe::models
