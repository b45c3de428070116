// Causal self-attention from packed queries, keys and values, through ATen's flash kernel.
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty_like.h>

#include "models/function_node.hpp"
#include "models/functions.hpp"

namespace troupe::models {
namespace {

/// Views (B, heads, T, D) into a packed (B, T, ..) tensor.
struct heads_of {
  at::Tensor q, k, v;

  heads_of(const at::Tensor& packed, const attention_shape& shape) {
    const int64_t rows = packed.size(0), columns = packed.size(1);
    const auto part = [&](int64_t first_head, int64_t count) {
      return packed.narrow(2, first_head * shape.head_width, count * shape.head_width)
          .view({rows, columns, count, shape.head_width})
          .transpose(1, 2);
    };
    q = part(0, shape.heads);
    k = part(shape.heads, shape.kv_heads);
    v = part(shape.heads + shape.kv_heads, shape.kv_heads);
  }
};

struct attention_node final : function_node {
  at::Tensor qkv, mixed, log_sums;
  attention_shape shape;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const heads_of in(qkv, shape);
    at::Tensor packed = at::empty_like(qkv);
    const heads_of out(packed, shape);
    const at::Tensor g =
        gradients[0].view({qkv.size(0), qkv.size(1), shape.heads, shape.head_width}).transpose(1, 2);
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(g, in.q, in.k, in.v, mixed, log_sums,
                                                                                 0.0, /*is_causal=*/true);
    out.q.copy_(dq);
    out.k.copy_(dk);
    out.v.copy_(dv);
    return {std::move(packed)};
  }
  void release_variables() override {
    qkv.reset();
    mixed.reset();
    log_sums.reset();
  }
  [[nodiscard]] std::string name() const override { return "causal_attention"; }
};

}  // namespace

at::Tensor causal_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                            float dropout) {
  TORCH_CHECK(dropout == 0 || !scope.batch().training, "attention dropout needs masks");
  at::Tensor mixed, log_sums, y;
  {
    const below_autograd plain;
    const heads_of in(qkv.detach(), shape);
    std::tie(mixed, log_sums) =
        at::_scaled_dot_product_flash_attention_for_cpu(in.q, in.k, in.v, 0.0, /*is_causal=*/true);
    y = mixed.transpose(1, 2).reshape({qkv.size(0), qkv.size(1), shape.heads * shape.head_width});
  }
  if (!wants_node(qkv)) return y;
  auto node = std::make_shared<attention_node>();
  node->qkv = qkv.detach();
  node->mixed = std::move(mixed);
  node->log_sums = std::move(log_sums);
  node->shape = shape;
  attach(y, std::move(node), scope, qkv);
  return y;
}

}  // namespace troupe::models
