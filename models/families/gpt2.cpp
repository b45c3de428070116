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

  [[nodiscard]] size_t attention_inputs() const override { return 1; }
  [[nodiscard]] size_t mlp_inputs() const override { return 1; }

  at::Tensor packed(segment_scope&, const std::vector<at::Tensor>& projected) const override {
    return projected.front();
  }

  at::Tensor mlp_output(segment_scope& scope, const std::vector<at::Tensor>& projected) const override {
    return activated_linear(scope, projected.front(), spec().act, mlp_end(scope));
  }

  at::Tensor add(segment_scope& scope, const at::Tensor& past, at::Tensor&& y, dropout_site site) const override {
    return add_dropped(scope, past, std::move(y), site, spec().residual_dropout);
  }
};

}  // namespace

std::unique_ptr<family_model> make_gpt2(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns,
                                        const model_place& place) {
  return std::make_unique<gpt2>(spec, type, rows, columns, place);
}

}  // namespace troupe::models
