// Attention in blocks of queries, by ATen's operations: each block reads only the keys of its document that its queries
// see. Nothing of size T x T is kept for backward, which recomputes the attention weights.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "models/layers/attention.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

/// Number of queries that are processed together: enough for fast matrix products, few enough that later keys need not
/// be computed.
constexpr int64_t block_queries = 128;

/// Views of one row, each (kv_heads, T, D): for each key head, its query head number `g` (of heads / kv_heads), and the
/// key and value head.
struct head_group {
  at::Tensor q, k, v;

  head_group(const attention_tensors& x, int64_t row, const attention_shape& s, int64_t g) {
    const at::Tensor queries = x.queries.select(0, row), both = x.keys.select(0, row);
    const int64_t width = s.head_width, group = s.heads / s.kv_heads;
    q = queries.view({queries.size(0), s.kv_heads, group, width}).select(2, g).transpose(0, 1);
    k = keys(both, s, 0);
    v = keys(both, s, s.kv_heads);
  }

 private:
  static at::Tensor keys(const at::Tensor& both, const attention_shape& s, int64_t first_head) {
    return both.narrow(1, first_head * s.head_width, s.kv_heads * s.head_width)
        .view({both.size(0), s.kv_heads, s.head_width})
        .transpose(0, 1);
  }
};

/// Returns a view of `row` (T, heads * D) with shape (kv_heads, T, D): for each key head, its query head number `g`.
at::Tensor group_view(const at::Tensor& row, const attention_shape& s, int64_t g) {
  return row.view({row.size(0), s.kv_heads, s.heads / s.kv_heads, s.head_width}).select(2, g).transpose(0, 1);
}

/// A block of queries, and the keys that at least one of them sees: the columns [first_key, first_key + keys()) of the
/// row.
struct block_keys : query_block {
  int64_t first_key = 0, end_key = 0;
  block_keys(const query_block& b, const attention_options& options)
      : query_block(b),
        first_key(options.window > 0 ? std::max(b.document, b.first + 1 - options.window) : b.document),
        end_key(b.document + b.seen(options.causal)) {}
  [[nodiscard]] int64_t keys() const { return end_key - first_key; }
};

/// The attention weights of a block before dropout, (kv_heads, queries of the block, keys of the block), and, if scores
/// are capped, the derivatives of the capped scores by the scores.
struct block_weights {
  at::Tensor weights, slopes;
};

/// Arguments that all blocks of one forward or backward of attention share; refers to them, so it must not outlive the
/// call.
struct attention_pass {
  const attention_work& work;
  const attention_shape& shape;
  const dropout_masks& masks;
  int64_t columns;
  at::Tensor causal;  // (block, block): -inf above the diagonal, for keys that come after the query within its block

  attention_pass(const attention_work& w, const at::Tensor& like)
      : work(w), shape(w.shape), masks(w.masks), columns(w.columns) {
    const int64_t block = std::min(block_queries, columns);
    causal = at::full({block, block}, -std::numeric_limits<double>::infinity(), like.options().requires_grad(false))
                 .triu_(1);
  }

  [[nodiscard]] int64_t groups() const { return shape.heads / shape.kv_heads; }

  [[nodiscard]] double scale() const { return shape.options.scale_of(shape.head_width); }

  [[nodiscard]] std::vector<block_keys> blocks(int64_t row) const {
    std::vector<block_keys> out;
    for (const query_block& b : work.blocks(row, block_queries)) out.emplace_back(b, shape.options);
    return out;
  }

  /// Returns the queries of block `b`, times the scale; scaling the queries costs less than scaling the scores.
  [[nodiscard]] at::Tensor scaled(const at::Tensor& q, const query_block& b) const {
    return q.narrow(1, b.own, b.count).mul(scale());
  }

  [[nodiscard]] block_weights weights(const head_group& in, const block_keys& b) const {
    block_weights out;
    at::Tensor scores = at::bmm(scaled(in.q, b), in.k.narrow(1, b.first_key, b.keys()).transpose(1, 2));
    if (const double cap = shape.options.soft_cap; cap > 0) {
      const at::Tensor limited = scores.div(cap).tanh_();
      out.slopes = limited.square().neg_().add_(1);
      scores = limited.mul(cap);
    }
    if (shape.options.causal)
      scores.narrow(2, b.first - b.first_key, b.count).add_(causal.narrow(0, 0, b.count).narrow(1, 0, b.count));
    // Query i of the block does not see the keys up to its own column minus the window: keys j <= i + last_hidden.
    if (const int64_t last_hidden = b.first - shape.options.window - b.first_key;
        shape.options.window > 0 && last_hidden + b.count > 0)
      scores.add_(
          at::full({b.count, b.keys()}, -std::numeric_limits<double>::infinity(), scores.options()).tril_(last_hidden));
    out.weights = at::_softmax(scores, -1, /*half_to_float=*/false);
    return out;
  }

  /// Returns the dropout mask of the attention weights `w` of block `b`; a weight's position in the random stream
  /// depends on (query head, query, key). Undefined if dropout is off.
  [[nodiscard]] at::Tensor mask(const at::Tensor& w, int64_t row, int64_t g, const block_keys& b) const {
    if (!masks.active()) return {};
    at::Tensor keep = at::empty({shape.kv_heads, b.count, b.keys()}, w.options().dtype(at::kByte));
    const kernels::dropout_key key = masks.key(static_cast<uint64_t>(row));
    auto* next = keep.mutable_data_ptr<uint8_t>();
    for (int64_t kv = 0; kv < shape.kv_heads; ++kv)
      for (int64_t i = 0; i < b.count; ++i, next += b.keys()) {
        const int64_t head = shape.first_head + kv * groups() + g;
        kernels_for(w).draw(next, static_cast<uint64_t>(b.keys()), key,
                            static_cast<uint64_t>((head * columns + b.first + i) * columns + b.first_key));
      }
    return keep;
  }

  void drop(const at::Tensor& w, const at::Tensor& keep) const {
    if (masks.active()) masks.apply(w, keep);
  }
};

}  // namespace

at::Tensor composed_forward(const attention_work& work, const attention_tensors& in) {
  const attention_pass pass(work, in.queries);
  at::Tensor y = at::empty({in.queries.size(0), in.queries.size(1), work.shape.heads * work.shape.head_width},
                           in.queries.options().requires_grad(false));
  for (int64_t row = 0; row < y.size(0); ++row) {
    const auto blocks = pass.blocks(row);
    for (int64_t g = 0; g < pass.groups(); ++g) {
      const head_group heads(in, row, work.shape, g);
      const at::Tensor out = group_view(y.select(0, row), work.shape, g);
      for (const block_keys& b : blocks) {
        const at::Tensor w = pass.weights(heads, b).weights;
        pass.drop(w, pass.mask(w, row, g, b));
        out.narrow(1, b.own, b.count).copy_(at::bmm(w, heads.v.narrow(1, b.first_key, b.keys())));
      }
    }
  }
  return y;
}

void composed_backward(const attention_work& work, const attention_tensors& in, const at::Tensor& gradient,
                       const attention_tensors& to) {
  const attention_pass pass(work, in.queries);
  const attention_shape& shape = work.shape;
  const auto wide = in.queries.options().dtype(sum_dtype(in.queries.scalar_type()));
  for (int64_t row = 0; row < gradient.size(0); ++row) {
    const auto blocks = pass.blocks(row);
    at::Tensor dk = at::zeros({shape.kv_heads, pass.columns, shape.head_width}, wide);
    at::Tensor dv = at::zeros_like(dk);
    for (int64_t g = 0; g < pass.groups(); ++g) {
      const head_group heads(in, row, shape, g), out(to, row, shape, g);
      const at::Tensor dy = group_view(gradient.select(0, row), shape, g);
      for (const block_keys& b : blocks) {
        const at::Tensor dy_block = dy.narrow(1, b.own, b.count);
        const at::Tensor k = heads.k.narrow(1, b.first_key, b.keys()), v = heads.v.narrow(1, b.first_key, b.keys());
        const auto [w, slopes] = pass.weights(heads, b);
        at::Tensor dw = at::bmm(dy_block, v.transpose(1, 2));
        const at::Tensor keep = pass.mask(w, row, g, b);
        pass.drop(dw, keep);
        const at::Tensor ds = at::_softmax_backward_data(dw, w, -1, w.scalar_type());
        if (slopes.defined()) ds.mul_(slopes);
        pass.drop(w, keep);
        dv.narrow(1, b.first_key, b.keys()).add_(at::bmm(w.transpose(1, 2), dy_block));
        dk.narrow(1, b.first_key, b.keys()).add_(at::bmm(ds.transpose(1, 2), pass.scaled(heads.q, b)));
        out.q.narrow(1, b.own, b.count).copy_(at::bmm(ds, k).mul_(pass.scale()));
      }
      if (g + 1 == pass.groups()) {
        out.k.copy_(dk);
        out.v.copy_(dv);
      }
    }
  }
}

}  // namespace troupe::models
