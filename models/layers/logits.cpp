// Makes the logits of a model from the products of its head: a division and a soft cap, in the memory of the products,
// with or without autograd history.
#include <ATen/ops/tanh_backward.h>

#include <utility>

#include "models/layers/functions.hpp"
#include "models/segment/function_node.hpp"

namespace troupe::models {
namespace {

struct logits_node final : function_node {
  logit_form form;
  at::Tensor kept;  // result of form_logits()

  gradient_list apply(gradient_list&& gradients) override {
    const at::Tensor gradient = taken(gradients[0]);
    form_logits_backward(form, gradient, std::exchange(kept, {}));
    return {gradient};
  }
  void release_variables() override { kept.reset(); }
  [[nodiscard]] std::string name() const override { return "logits"; }
};

}  // namespace

at::Tensor form_logits(const logit_form& form, const at::Tensor& products, bool keeps) {
  if (form.divisor != 1) products.div_(form.divisor);
  if (form.soft_cap == 0) return {};
  products.div_(form.soft_cap).tanh_();
  at::Tensor kept = keeps ? products.clone() : at::Tensor();
  products.mul_(form.soft_cap);
  return kept;
}

void form_logits_backward(const logit_form& form, const at::Tensor& gradient, const at::Tensor& kept) {
  // The factors soft_cap and 1 / soft_cap of the two multiplications cancel.
  at::Tensor here = gradient;
  if (form.soft_cap != 0) at::tanh_backward_out(here, gradient, kept);
  if (form.divisor != 1) gradient.div_(form.divisor);
}

at::Tensor formed_logits(const segment_scope& scope, const at::Tensor& products, const logit_form& form) {
  if (form.is_plain()) return products;
  const bool has_history = wants_node(products);
  at::Tensor logits, kept;
  {
    const below_autograd plain;
    logits = products.detach();
    kept = form_logits(form, logits, has_history);
  }
  if (!has_history) return logits;
  auto node = std::make_shared<logits_node>();
  node->form = form;
  node->kept = std::move(kept);
  attach({&logits}, std::move(node), scope, {products});
  return logits;
}

}  // namespace troupe::models
