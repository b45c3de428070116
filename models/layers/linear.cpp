// Linear layers, alone or after an activation. After an activation, backward recomputes the activation's output while
// it computes the activation's gradient, so that this output, the widest tensor of a block, is not kept.
#include <ATen/ops/empty_like.h>

#include "models/layers/functions.hpp"
#include "models/segment/function_node.hpp"
#include "models/segment/kept_tensor.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

struct linear_node final : function_node {
  at::Tensor x;  // input of the layer, (N, in)
  projection p;

  gradient_list apply(gradient_list&& gradients) override {
    const at::Tensor g = as_rows(gradients[0].contiguous());
    p.write_gradients(*slot, x, g);
    x.reset();
    return {like_rows_of(p.input_gradient(g), gradients[0])};
  }
  void release_variables() override { x.reset(); }
  [[nodiscard]] std::string name() const override { return "linear"; }
  [[nodiscard]] bool makes_again() const override { return true; }
  at::Tensor made_again(uint32_t) override { return p.forward(x); }
};

struct gelu_linear_node final : function_node {
  kept_tensor before;  // input of the activation, (N, in)
  projection p;

  gradient_list apply(gradient_list&& gradients) override {
    const at::Tensor g = as_rows(gradients[0].contiguous());
    const at::Tensor x = before.take(), dx = p.input_gradient(g), y = in_place_of(x);
    kernels_for(x).gelu_tanh_backward(bytes_of(x), bytes_of(dx), bytes_in(dx), core_dtype(x.scalar_type()), count_of(x),
                                      bytes_in(y));
    p.write_gradients(*slot, y, g);
    return {like_rows_of(dx, gradients[0])};
  }
  void release_variables() override { before.reset(); }
  [[nodiscard]] std::string name() const override { return "gelu_linear"; }
};

struct gated_linear_node final : function_node {
  kept_tensor kept_gate, kept_up;  // inputs of gated SiLU: the gate, and the values that it multiplies, each (N, in)
  projection p;

  gradient_list apply(gradient_list&& gradients) override {
    const at::Tensor g = as_rows(gradients[0].contiguous()), gate = kept_gate.take(), up = kept_up.take();
    const at::Tensor dgate = p.input_gradient(g), dup = in_place_of(up), y = in_place_of(gate);
    kernels_for(up).silu_gated_backward(bytes_of(gate), bytes_of(up), bytes_of(dgate), bytes_in(dgate), bytes_in(dup),
                                        core_dtype(up.scalar_type()), count_of(up), bytes_in(y));
    p.write_gradients(*slot, y, g);
    return {like_rows_of(dgate, gradients[0]), like_rows_of(dup, gradients[0])};
  }
  void release_variables() override {
    kept_gate.reset();
    kept_up.reset();
  }
  [[nodiscard]] std::string name() const override { return "gated_linear"; }
};

at::Tensor rows_without_elements(const at::Tensor& x) { return without_elements(x, x.size(-1)).flatten(0, -2); }

/// Returns the output of `p` for `rows`. If the segment's output is computed in pieces of rows and this product ends
/// the segment, computes only the first piece, and stores a function that computes the later pieces.
at::Tensor forward_of(const segment_scope& scope, const at::Tensor& rows, const projection& p) {
  if (!p.ends_segment || !scope.gives_pieces()) return p.forward(rows);
  const at::Tensor out = p.room_for(rows);
  scope.by_rows(rows.size(0), [out, rows, p](int64_t first, int64_t count) {
    const below_autograd plain;
    at::Tensor part = out.narrow(0, first, count);
    p.forward_out(part, rows.narrow(0, first, count), first);
  });
  return out;
}

}  // namespace

at::Tensor linear(const segment_scope& scope, const at::Tensor& x, const projection& p) {
  at::Tensor y, rows;
  {
    const below_autograd plain;
    rows = as_rows(x.detach());
    y = like_rows_of(forward_of(scope, rows, p), x);
  }
  if (!wants_node(x)) return y;
  auto node = std::make_shared<linear_node>();
  node->x = std::move(rows);
  node->p = p;
  attach({&y}, std::move(node), scope, {x});
  return y;
}

at::Tensor activated_linear(const segment_scope& scope, const at::Tensor& x, activation act, const projection& p) {
  if (act != activation::gelu_tanh) return linear(scope, activate(x, act), p);
  at::Tensor y, rows;
  {
    const below_autograd plain;
    if (scope.batch().wants_output) {
      rows = as_rows(x.detach().contiguous());
      const at::Tensor inner = at::empty_like(rows);
      kernels_for(rows).gelu_tanh(bytes_of(rows), bytes_in(inner), core_dtype(rows.scalar_type()), count_of(rows));
      y = like_rows_of(forward_of(scope, inner, p), x);
    } else {
      rows = rows_without_elements(x);
      y = without_elements(x, p.outputs());
    }
  }
  if (!wants_node(x)) return y;
  auto node = std::make_shared<gelu_linear_node>();
  node->before = kept_tensor(scope, x, std::move(rows));
  node->p = p;
  attach({&y}, std::move(node), scope, {x});
  return y;
}

at::Tensor gated_linear(const segment_scope& scope, const at::Tensor& gate, const at::Tensor& up, activation act,
                        const projection& p) {
  TORCH_CHECK(gate.sizes() == up.sizes() && gate.scalar_type() == up.scalar_type(), "a gate of ", gate.sizes(), " for ",
              up.sizes());
  // The halves of one layer's output are made contiguous, so that they give the same bits as the copies in row tiles.
  if (act != activation::silu) return linear(scope, activate(gate.contiguous(), act).mul(up.contiguous()), p);
  at::Tensor y, gate_rows, up_rows;
  {
    const below_autograd plain;
    if (scope.batch().wants_output) {
      gate_rows = as_rows(gate.detach().contiguous());
      up_rows = as_rows(up.detach().contiguous());
      const at::Tensor inner = at::empty_like(up_rows);
      kernels_for(up_rows).silu_gated(bytes_of(gate_rows), bytes_of(up_rows), bytes_in(inner),
                                      core_dtype(up_rows.scalar_type()), count_of(inner));
      y = like_rows_of(forward_of(scope, inner, p), up);
    } else {
      gate_rows = up_rows = rows_without_elements(up);
      y = without_elements(up, p.outputs());
    }
  }
  if (!wants_node(gate, up)) return y;
  auto node = std::make_shared<gated_linear_node>();
  node->kept_gate = kept_tensor(scope, gate, std::move(gate_rows));
  node->kept_up = kept_tensor(scope, up, std::move(up_rows));
  node->p = p;
  attach({&y}, std::move(node), scope, {gate, up});
  return y;
}

}  // namespace troupe::models
