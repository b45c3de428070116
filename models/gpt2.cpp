// GPT-2: learned positions, layer norm before each half of a block, one packed projection for attention.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include "models/embedding.hpp"
#include "models/family_model.hpp"
#include "models/functions.hpp"
#include "models/segment_scope.hpp"

namespace troupe::models {
namespace {

constexpr auto conv1d = weight_layout::in_out;

at::Tensor activate(activation act, const at::Tensor& x) {
  switch (act) {
    case activation::gelu_tanh: return at::gelu(x, "tanh");
    case activation::gelu_exact: return at::gelu(x);
    case activation::silu: return at::silu(x);
    case activation::relu: return at::relu(x);
  }
  return x;
}

class gpt2 final : public language_model {
 public:
  gpt2(const model_spec& spec, core::model_table table) : spec_(spec), table_(std::move(table)) {}

  [[nodiscard]] const core::model_table& table() const override { return table_; }

  std::unique_ptr<segment_run> forward(uint32_t unit, uint32_t segment, const micro_batch& batch,
                                       const at::Tensor& input, const parameter_binding& parameters) override {
    segment_scope scope(table_, parameters, batch, unit, segment);
    if (unit == 0) {
      const weight wte = scope.next(), wpe = scope.next();
      return run_embedding(scope, wte, wpe, spec_.embedding_dropout);
    }
    return run_segment(scope, input, [&](const at::Tensor& x) {
      if (unit == spec_.layers + 1) return head(scope, x);
      return segment == 0 ? attention(scope, x) : mlp(scope, x);
    });
  }

  std::vector<float> next_token_logits(const micro_batch& batch, const at::Tensor& hidden,
                                       const parameter_binding& parameters) override {
    const at::NoGradGuard no_grad;
    segment_scope scope(table_, parameters, batch, spec_.layers + 1, 0);
    const at::Tensor last = logits(scope, hidden.select(0, 0).narrow(0, hidden.size(1) - 1, 1)).to(at::kFloat);
    const float* begin = last.const_data_ptr<float>();
    return {begin, begin + last.numel()};
  }

 private:
  at::Tensor attention(segment_scope& scope, const at::Tensor& x) const {
    const weight norm = scope.next(), norm_bias = scope.next();
    const weight packed = scope.next(), packed_bias = scope.next();
    const weight out = scope.next(), out_bias = scope.next();
    const attention_shape shape{spec_.heads, spec_.kv_heads, spec_.head_width};
    const at::Tensor qkv =
        linear(scope, layer_norm(scope, x, norm, norm_bias, spec_.norm_epsilon), packed, packed_bias, conv1d);
    const at::Tensor mixed = causal_attention(scope, qkv, shape, spec_.attention_dropout);
    return linear(scope, mixed, out, out_bias, conv1d).add_(x);
  }

  at::Tensor mlp(segment_scope& scope, const at::Tensor& x) const {
    const weight norm = scope.next(), norm_bias = scope.next();
    const weight wide = scope.next(), wide_bias = scope.next();
    const weight narrow = scope.next(), narrow_bias = scope.next();
    const at::Tensor inner =
        linear(scope, layer_norm(scope, x, norm, norm_bias, spec_.norm_epsilon), wide, wide_bias, conv1d);
    return linear(scope, activate(spec_.act, inner), narrow, narrow_bias, conv1d).add_(x);
  }

  at::Tensor logits(segment_scope& scope, const at::Tensor& x) const {
    const weight norm = scope.next(), norm_bias = scope.next(), out = scope.next();
    return linear(scope, layer_norm(scope, x, norm, norm_bias, spec_.norm_epsilon).reshape({-1, spec_.width}), out,
                  std::nullopt, weight_layout::out_in);
  }

  at::Tensor head(segment_scope& scope, const at::Tensor& x) const { return cross_entropy(scope, logits(scope, x)); }

  model_spec spec_;
  core::model_table table_;
};

}  // namespace

std::unique_ptr<language_model> make_gpt2(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns) {
  return std::make_unique<gpt2>(spec, make_model_table(spec, rows, columns, core::size_of(type)));
}

}  // namespace troupe::models
