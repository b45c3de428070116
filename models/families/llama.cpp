// Llama: rotary positions, RMS norm before each half of a block, grouped queries, a gated MLP.
#include "models/families/family_model.hpp"
#include "models/layers/dropout.hpp"
#include "models/layers/embedding.hpp"
#include "models/layers/rotary.hpp"
#include "models/segment/torch_device.hpp"

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

  [[nodiscard]] size_t attention_inputs() const override { return 3; }
  [[nodiscard]] size_t mlp_inputs() const override { return 2; }

  at::Tensor packed(segment_scope& scope, const std::vector<at::Tensor>& projected) const override {
    return rotate_and_pack(scope, projected[0], projected[1], projected[2], own_heads(scope.unit()), angles_);
  }

  at::Tensor mlp_output(segment_scope& scope, const std::vector<at::Tensor>& projected) const override {
    return gated_linear(scope, projected[0], projected[1], spec().act, mlp_end(scope));
  }

  at::Tensor add(segment_scope& scope, const at::Tensor& past, at::Tensor&& y, dropout_site) const override {
    return add_past(scope, past, std::move(y));
  }

 private:
  rotary_angles angles_;
};

}  // namespace

std::unique_ptr<family_model> make_llama(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns,
                                         const model_place& place, device::device_id device) {
  return std::make_unique<llama>(spec, type, rows, columns, place, device);
}

}  // namespace troupe::models
