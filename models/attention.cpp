// Causal self-attention in blocks of queries: each block looks only at the keys it may see, and nothing of the size of
// T x T is kept for backward, which computes the weights again.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "models/dropout.hpp"
#include "models/function_node.hpp"
#include "models/functions.hpp"
#include "models/torch_dtype.hpp"

namespace troupe::models {
namespace {

/// Queries of one block: enough for the matrix products, few enough that causality saves work.
constexpr int64_t block_queries = 128;

/// Of one row: queries, keys and values of the key heads' group `g`, each (kv_heads, T, D) without a copy.
struct head_group {
  at::Tensor q, k, v;

  head_group(const at::Tensor& packed_row, const attention_shape& s, int64_t g) {
    const int64_t columns = packed_row.size(0), width = s.head_width, group = s.heads / s.kv_heads;
    q = packed_row.narrow(1, 0, s.heads * width).view({columns, s.kv_heads, group, width}).select(2, g).transpose(0, 1);
    k = keys(packed_row, s, s.heads);
    v = keys(packed_row, s, s.heads + s.kv_heads);
  }

 private:
  static at::Tensor keys(const at::Tensor& packed_row, const attention_shape& s, int64_t first_head) {
    return packed_row.narrow(1, first_head * s.head_width, s.kv_heads * s.head_width)
        .view({packed_row.size(0), s.kv_heads, s.head_width})
        .transpose(0, 1);
  }
};

/// (T, heads * D) as (kv_heads, T, D) of group `g`.
at::Tensor group_view(const at::Tensor& row, const attention_shape& s, int64_t g) {
  return row.view({row.size(0), s.kv_heads, s.heads / s.kv_heads, s.head_width}).select(2, g).transpose(0, 1);
}

/// What one pass over a segment's attention works with; nothing of it outlives the pass.
struct attention_call {
  attention_shape shape;
  dropout_masks masks;
  int64_t columns;
  at::Tensor causal;  // (block, block): -inf where a key of a block's own part lies ahead of the query

  attention_call(const attention_shape& s, const dropout_masks& m, const at::Tensor& qkv)
      : shape(s), masks(m), columns(qkv.size(1)) {
    const int64_t block = std::min(block_queries, columns);
    causal =
        at::full({block, block}, -std::numeric_limits<double>::infinity(), qkv.options().requires_grad(false)).triu_(1);
  }

  [[nodiscard]] int64_t groups() const { return shape.heads / shape.kv_heads; }

  [[nodiscard]] double scale() const { return 1.0 / std::sqrt(static_cast<double>(shape.head_width)); }

  /// Queries first .. first + n by the scale, on the smaller side of the product.
  [[nodiscard]] at::Tensor scaled(const at::Tensor& q, int64_t first, int64_t n) const {
    return q.narrow(1, first, n).mul(scale());
  }

  /// Attention weights (kv_heads, n, first + n) of queries first .. first + n, before dropout.
  [[nodiscard]] at::Tensor weights(const head_group& in, int64_t first, int64_t n) const {
    at::Tensor scores = at::bmm(scaled(in.q, first, n), in.k.narrow(1, 0, first + n).transpose(1, 2));
    scores.narrow(2, first, n).add_(causal.narrow(0, 0, n).narrow(1, 0, n));
    return at::_softmax(scores, -1, /*half_to_float=*/false);
  }

  /// The mask of weights (kv_heads, n, first + n); positions count (query head, query, key). Empty where nothing drops.
  [[nodiscard]] std::vector<uint8_t> mask(int64_t row, int64_t g, int64_t first, int64_t n) const {
    if (!masks.active()) return {};
    const int64_t seen = first + n;
    std::vector<uint8_t> keep(static_cast<size_t>(shape.kv_heads * n * seen));
    std::span<uint8_t> left = keep;
    for (int64_t kv = 0; kv < shape.kv_heads; ++kv)
      for (int64_t i = 0; i < n; ++i, left = left.subspan(static_cast<size_t>(seen))) {
        const int64_t head = kv * groups() + g;
        masks.draw(left.first(static_cast<size_t>(seen)), static_cast<uint64_t>(row),
                   static_cast<uint64_t>((head * columns + first + i) * columns));
      }
    return keep;
  }

  void drop(const at::Tensor& w, const std::vector<uint8_t>& keep) const {
    if (masks.active()) masks.apply(w, keep);
  }
};

struct attention_node final : function_node {
  attention_shape shape;
  dropout_masks masks;
  at::Tensor qkv;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const attention_call call(shape, masks, qkv);
    const at::Tensor gradient = gradients[0].contiguous();
    at::Tensor packed = at::empty_like(qkv);
    const auto wide = qkv.options().dtype(sum_dtype(qkv.scalar_type()));
    for (int64_t row = 0; row < qkv.size(0); ++row) {
      at::Tensor dk = at::zeros({shape.kv_heads, call.columns, shape.head_width}, wide);
      at::Tensor dv = at::zeros_like(dk);
      for (int64_t g = 0; g < call.groups(); ++g) {
        const head_group in(qkv.select(0, row), shape, g), out(packed.select(0, row), shape, g);
        const at::Tensor dy = group_view(gradient.select(0, row), shape, g);
        for (int64_t first = 0; first < call.columns; first += block_queries) {
          const int64_t n = std::min(block_queries, call.columns - first), seen = first + n;
          const at::Tensor dy_block = dy.narrow(1, first, n);
          const at::Tensor k = in.k.narrow(1, 0, seen), v = in.v.narrow(1, 0, seen);
          const at::Tensor w = call.weights(in, first, n);
          at::Tensor dw = at::bmm(dy_block, v.transpose(1, 2));
          const std::vector<uint8_t> keep = call.mask(row, g, first, n);
          call.drop(dw, keep);
          const at::Tensor ds = at::_softmax_backward_data(dw, w, -1, w.scalar_type());
          call.drop(w, keep);
          dv.narrow(1, 0, seen).add_(at::bmm(w.transpose(1, 2), dy_block));
          dk.narrow(1, 0, seen).add_(at::bmm(ds.transpose(1, 2), call.scaled(in.q, first, n)));
          out.q.narrow(1, first, n).copy_(at::bmm(ds, k).mul_(call.scale()));
        }
        if (g + 1 == call.groups()) {
          out.k.copy_(dk);
          out.v.copy_(dv);
        }
      }
    }
    return {std::move(packed)};
  }
  void release_variables() override { qkv.reset(); }
  [[nodiscard]] std::string name() const override { return "causal_attention"; }
};

}  // namespace

at::Tensor causal_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                            float dropout) {
  at::Tensor y;
  const dropout_masks masks(scope, dropout_site::attention_weights, dropout);
  {
    const below_autograd plain;
    const attention_call call(shape, masks, qkv);
    y = at::empty({qkv.size(0), qkv.size(1), shape.heads * shape.head_width}, qkv.options().requires_grad(false));
    for (int64_t row = 0; row < qkv.size(0); ++row)
      for (int64_t g = 0; g < call.groups(); ++g) {
        const head_group in(qkv.select(0, row), shape, g);
        const at::Tensor out = group_view(y.select(0, row), shape, g);
        for (int64_t first = 0; first < call.columns; first += block_queries) {
          const int64_t n = std::min(block_queries, call.columns - first);
          const at::Tensor w = call.weights(in, first, n);
          call.drop(w, call.mask(row, g, first, n));
          out.narrow(1, first, n).copy_(at::bmm(w, in.v.narrow(1, 0, first + n)));
        }
      }
  }
  if (!wants_node(qkv)) return y;
  auto node = std::make_shared<attention_node>();
  node->shape = shape;
  node->masks = masks;
  node->qkv = qkv.detach();
  attach(y, std::move(node), scope, qkv);
  return y;
}

}  // namespace troupe::models
