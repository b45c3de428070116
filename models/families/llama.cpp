// Llama: rotary positions, RMS norm before each half of a block, grouped queries, a gated MLP.
#include "models/families/family_model.hpp"
#include "models/layers/embedding.hpp"
#include "models/layers/rotary.hpp"

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
    const bool biased = spec().attention_bias;
    row_norm norm = rms_norm(scope);
    std::vector<projection> layers{next(scope, biased), next(scope, biased), next(scope, biased)};
    const auto [qkv, past] = normed_linear(scope, x, std::move(norm), std::move(layers));
    const at::Tensor packed = rotate_and_pack(scope, qkv[0], qkv[1], qkv[2], heads(), angles_);
    const at::Tensor mixed = causal_attention(scope, packed, heads(), spec().attention_dropout);
    return linear(scope, mixed, next(scope, biased)).add_(past);
  }

  at::Tensor mlp(segment_scope& scope, const at::Tensor& x) const override {
    const bool biased = spec().mlp_bias;
    row_norm norm = rms_norm(scope);
    std::vector<projection> layers{next(scope, biased), next(scope, biased)};
    const auto [inner, past] = normed_linear(scope, x, std::move(norm), std::move(layers));
    return gated_linear(scope, inner[0], inner[1], spec().act, next(scope, biased)).add_(past);
  }

  at::Tensor logits(segment_scope& scope, const at::Tensor& x) const override {
    row_norm norm = rms_norm(scope);
    return normed_linear(scope, as_rows(x), std::move(norm), {next(scope, false)}).y.front();
  }

 private:
  row_norm rms_norm(segment_scope& scope) const { return {scope.next(), std::nullopt, spec().norm_epsilon}; }

  static projection next(segment_scope& scope, bool biased) {
    const weight w = scope.next();
    return {w, scope.next_if(biased), weight_layout::out_in};
  }

  rotary_angles angles_;
};

}  // namespace

std::unique_ptr<language_model> make_llama(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns) {
  return std::make_unique<llama>(spec, type, rows, columns);
}

}  // namespace troupe::models
