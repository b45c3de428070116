// Activations: the tanh form of GELU by our own kernel (a quarter of ATen's time), the others by ATen.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include "kernels/elementwise.hpp"
#include "models/function_node.hpp"
#include "models/functions.hpp"
#include "models/torch_dtype.hpp"

namespace troupe::models {
namespace {

const std::byte* bytes_of(const at::Tensor& t) { return static_cast<const std::byte*>(t.const_data_ptr()); }

struct gelu_node final : function_node {
  at::Tensor x;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const at::Tensor dy = gradients[0].contiguous();
    at::Tensor dx = at::empty_like(x);
    kernels::gelu_tanh_backward(bytes_of(x), bytes_of(dy), static_cast<std::byte*>(dx.mutable_data_ptr()),
                                core_dtype(x.scalar_type()), static_cast<uint64_t>(x.numel()));
    return {std::move(dx)};
  }
  void release_variables() override { x.reset(); }
  [[nodiscard]] std::string name() const override { return "gelu_tanh"; }
};

at::Tensor gelu_tanh(const segment_scope& scope, const at::Tensor& x) {
  if (x.scalar_type() == at::kDouble) return at::gelu(x, "tanh");
  at::Tensor y, in;
  {
    const below_autograd plain;
    in = x.detach().contiguous();
    y = at::empty_like(in);
    kernels::gelu_tanh(bytes_of(in), static_cast<std::byte*>(y.mutable_data_ptr()), core_dtype(x.scalar_type()),
                       static_cast<uint64_t>(in.numel()));
  }
  if (!wants_node(x)) return y;
  auto node = std::make_shared<gelu_node>();
  node->x = std::move(in);
  attach(y, std::move(node), scope, x);
  return y;
}

}  // namespace

at::Tensor activate(const segment_scope& scope, const at::Tensor& x, activation act) {
  switch (act) {
    case activation::gelu_tanh:
      return gelu_tanh(scope, x);
    case activation::gelu_exact:
      return at::gelu(x);
    case activation::silu:
      return at::silu(x);
    case activation::relu:
      return at::relu(x);
  }
  return x;
}

}  // namespace troupe::models
