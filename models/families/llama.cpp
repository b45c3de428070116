// Llama: rotary positions, RMS norm before each half of a block, grouped queries, a gated MLP.
#include "models/families/family_model.hpp"
#include "models/layers/dropout.hpp"
#include "models/layers/embedding.hpp"
#include "models/layers/rotary.hpp"
#include "models/layers/torch_device.hpp"

namespace troupe::models {
namespace {

class llama final : public family_model {
 public:
  llama(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns, const model_place& place,
        device::device_id device)
      : family_model(spec, type, rows, columns, place),
        angles_(spec.rope_theta, spec.head_width, columns, type, torch_device(device)) {}

 protected:
  std::unique_ptr<segment_run> embedding(segment_scope& scope) const override {
    return run_embedding(scope, next_weight(scope, core::layer_kind::embedding), own_vocabulary(), std::nullopt,
                         spec().embedding_dropout);
  }

  attention_input before_attention(segment_scope& scope, const at::Tensor& x) const override {
    const auto [qkv, past] = normed(scope, x, 3);
    return {rotate_and_pack(scope, qkv[0], qkv[1], qkv[2], own_heads(scope.unit()), angles_), past};
  }

  at::Tensor behind_attention(segment_scope& scope, const at::Tensor& past, const at::Tensor& mixed) const override {
    return add_past(scope, past, linear(scope, mixed, next_output(scope)));
  }

  at::Tensor mlp(segment_scope& scope, const at::Tensor& x) const override {
    const auto [inner, past] = normed(scope, x, 2);
    return add_past(scope, past, gated_linear(scope, inner[0], inner[1], spec().act, next_output(scope)));
  }

 private:
  rotary_angles angles_;
};

}  // namespace

std::unique_ptr<language_model> make_llama(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns,
                                           const model_place& place, device::device_id device) {
  return std::make_unique<llama>(spec, type, rows, columns, place, device);
}

}  // namespace troupe::models
