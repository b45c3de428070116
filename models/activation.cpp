// Activations: the tanh form of GELU and gated SiLU by our own kernels, the others by ATen.
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
std::byte* bytes_in(const at::Tensor& t) { return static_cast<std::byte*>(t.mutable_data_ptr()); }
uint64_t count_of(const at::Tensor& t) { return static_cast<uint64_t>(t.numel()); }

struct gelu_node final : function_node {
  at::Tensor x;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const at::Tensor dy = taken(gradients[0]);
    at::Tensor dx = in_place_of(dy);
    kernels::gelu_tanh_backward(bytes_of(x), bytes_of(dy), bytes_in(dx), core_dtype(x.scalar_type()), count_of(x));
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
    kernels::gelu_tanh(bytes_of(in), bytes_in(y), core_dtype(x.scalar_type()), count_of(in));
  }
  if (!wants_node(x)) return y;
  auto node = std::make_shared<gelu_node>();
  node->x = std::move(in);
  attach(y, std::move(node), scope, x);
  return y;
}

struct silu_gated_node final : function_node {
  at::Tensor gate, up;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const at::Tensor dy = taken(gradients[0]);
    at::Tensor dgate = in_place_of(dy), dup = at::empty_like(up);
    const core::dtype type = core_dtype(gate.scalar_type());
    if (type == core::dtype::f64) {
      kernels::silu_gated_backward_reference(bytes_of(gate), bytes_of(up), bytes_of(dy), bytes_in(dgate), bytes_in(dup),
                                             type, count_of(gate));
    } else {
      kernels::silu_gated_backward(bytes_of(gate), bytes_of(up), bytes_of(dy), bytes_in(dgate), bytes_in(dup), type,
                                   count_of(gate));
    }
    return {std::move(dgate), std::move(dup)};
  }
  void release_variables() override {
    gate.reset();
    up.reset();
  }
  [[nodiscard]] std::string name() const override { return "silu_gated"; }
};

at::Tensor silu_gated(const segment_scope& scope, const at::Tensor& gate, const at::Tensor& up) {
  TORCH_CHECK(gate.sizes() == up.sizes() && gate.scalar_type() == up.scalar_type(), "a gate of ", gate.sizes(), " for ",
              up.sizes());
  at::Tensor y, gate_in, up_in;
  {
    const below_autograd plain;
    gate_in = gate.detach().contiguous();
    up_in = up.detach().contiguous();
    y = at::empty_like(gate_in);
    const core::dtype type = core_dtype(gate.scalar_type());
    if (type == core::dtype::f64) {
      kernels::silu_gated_reference(bytes_of(gate_in), bytes_of(up_in), bytes_in(y), type, count_of(y));
    } else {
      kernels::silu_gated(bytes_of(gate_in), bytes_of(up_in), bytes_in(y), type, count_of(y));
    }
  }
  if (!wants_node(gate, up)) return y;
  auto node = std::make_shared<silu_gated_node>();
  node->gate = std::move(gate_in);
  node->up = std::move(up_in);
  attach(y, std::move(node), scope, gate, up);
  return y;
}

}  // namespace

at::Tensor gated(const segment_scope& scope, const at::Tensor& gate, const at::Tensor& up, activation act) {
  return act == activation::silu ? silu_gated(scope, gate, up) : activate(scope, gate, act).mul(up);
}

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
