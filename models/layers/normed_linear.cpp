// Linear layers after a norm, or the norm alone. Backward recomputes the norm's output from its input, which the
// residual connection keeps alive anyway, so that the output need not be kept.
#include <optional>
#include <utility>

#include "models/layers/functions.hpp"
#include "models/segment/function_node.hpp"
#include "models/segment/kept_tensor.hpp"

namespace troupe::models {
namespace {

struct normed_linear_node final : function_node {
  at::Tensor x;  // input of the norm, (N, C)
  row_norm norm;
  std::vector<projection> layers;
  std::optional<normed_rows> again;  // the norm's result, recomputed at its first use in backward

  [[nodiscard]] bool makes_again() const override { return !layers.empty(); }
  at::Tensor made_again(uint32_t output) override { return layers[output].forward(norm_again().y); }
  normed_rows& norm_again() { return again ? *again : again.emplace(norm.forward(x)); }

  /// Computes the backward. `gradients` has the gradient of each layer's output (of the norm's output if there are no
  /// layers), then the gradient of the residual path.
  gradient_list apply(gradient_list&& gradients) override {
    norm_again();
    const auto shape = gradients[0].sizes().vec();
    at::Tensor dy;
    if (layers.empty()) dy = as_rows(taken(gradients[0]));
    for (size_t i = 0; i < layers.size(); ++i) {
      const at::Tensor g = as_rows(taken(gradients[i]));
      layers[i].write_gradients(*slot, again->y, g);
      const at::Tensor part = layers[i].input_gradient(g);
      dy = dy.defined() ? dy.add_(part) : part;
    }
    again->y.reset();
    at::Tensor& last = gradients.back();
    const at::Tensor past = last.defined() ? as_rows(taken(last)) : at::Tensor();
    const at::Tensor dx = norm.backward(*slot, x, *again, std::move(dy), past);
    auto like = shape;
    like.back() = dx.size(1);
    return {dx.view(like)};
  }
  void release_variables() override {
    x.reset();
    again.reset();
  }
  [[nodiscard]] std::string name() const override { return "normed_linear"; }
};

}  // namespace

normed_outputs normed_linear(const segment_scope& scope, const at::Tensor& x, row_norm norm,
                             std::vector<projection> layers) {
  normed_outputs out;
  at::Tensor rows;
  {
    const below_autograd plain;
    rows = as_rows(x.detach().contiguous());
    const bool computes = scope.batch().wants_output || layers.empty();
    const at::Tensor inner = computes ? norm.forward(rows).y : at::Tensor();
    for (const projection& p : layers)
      out.y.push_back(computes ? like_rows_of(p.forward(inner), x) : without_elements(x, p.outputs()));
    if (layers.empty()) out.y.push_back(like_rows_of(inner, x));
  }
  out.past = x;
  if (!wants_node(x)) return out;
  auto node = std::make_shared<normed_linear_node>();
  node->x = std::move(rows);
  node->norm = std::move(norm);
  node->layers = std::move(layers);
  out.past = x.detach();
  std::vector<at::Tensor*> outputs;
  for (at::Tensor& y : out.y) outputs.push_back(&y);
  outputs.push_back(&out.past);
  attach(outputs, std::move(node), scope, {x});
  return out;
}

}  // namespace troupe::models
