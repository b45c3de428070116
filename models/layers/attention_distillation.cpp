// Attention maps (the attention weights of each query, before dropout), which a model may learn from its teacher. Owns
// their arithmetic, head by head, in the type that sums are formed in; attention itself (attention.hpp) computes with
// other code, which keeps no map.
#include "models/layers/distillation.hpp"

#include <ATen/ops/_softmax.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "core/math.hpp"
#include "models/segment/function_node.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"
#include "models/table/attention_options.hpp"

namespace troupe::models {
namespace {

/// Queries and keys of all heads of one row (sample), in the type that sums are formed in.
struct row_heads {
  /// Shape (heads, tokens T, elements D of a head); queries are multiplied by the scale, and key heads are repeated, so
  /// that there is one for each query head.
  at::Tensor q, k;

  row_heads(const at::Tensor& row, const attention_shape& s)
      : q(heads_of(row, 0, s.heads, s).mul(scale(s))),
        k(heads_of(row, s.heads, s.kv_heads, s).repeat_interleave(s.heads / s.kv_heads, 0)),
        options_(s.options) {}

  static double scale(const attention_shape& s) { return s.options.scale_of(s.head_width); }
  /// Returns the map. Sets `slopes`, if it is not null and scores are capped, to the derivatives of the capped scores.
  [[nodiscard]] at::Tensor map(at::Tensor* slopes = nullptr) const {
    const int64_t columns = q.size(1);
    const at::Tensor all = at::full({columns, columns}, -std::numeric_limits<double>::infinity(), q.options());
    at::Tensor scores = at::bmm(q, k.transpose(1, 2));
    if (options_.soft_cap > 0) {
      const at::Tensor limited = scores.div(options_.soft_cap).tanh_();
      if (slopes != nullptr) *slopes = limited.square().neg_().add_(1);
      scores = limited.mul(options_.soft_cap);
    }
    if (options_.causal) scores.add_(all.triu(1));
    if (options_.window > 0) scores.add_(all.tril(-options_.window));
    return at::_softmax(scores, -1, /*half_to_float=*/false);
  }

 private:
  static at::Tensor heads_of(const at::Tensor& row, int64_t first, int64_t count, const attention_shape& s) {
    return row.narrow(1, first * s.head_width, count * s.head_width)
        .reshape({row.size(0), count, s.head_width})
        .transpose(0, 1)
        .to(sum_dtype(row.scalar_type()))
        .contiguous();
  }

  attention_options options_;
};

/// Copies `heads` (heads, T, D) to the elements of a packed row (T, ..) that belong to heads `first` to `first` + heads
/// - 1.
void put_heads(const at::Tensor& heads, int64_t first, const at::Tensor& row) {
  const int64_t count = heads.size(0), width = heads.size(2);
  row.narrow(1, first * width, count * width).copy_(heads.transpose(0, 1).reshape({row.size(0), count * width}));
}

double square_sum(const at::Tensor& x) {
  std::vector<double> sums(core::div_up(count_of(x), core::partition_grain));
  const kernels::squared_elements all{bytes_of(x), count_of(x), sums};
  kernels_for(x).block_square_sums({&all, 1}, core_dtype(x.scalar_type()));
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

struct map_node final : function_node {
  at::Tensor
      map_gradient;  // gradient of the loss between attention maps with respect to packed queries, keys and values

  gradient_list apply(gradient_list&& gradients) override {
    return {std::exchange(map_gradient, {}).add_(gradients[0])};
  }
  void release_variables() override { map_gradient.reset(); }
  [[nodiscard]] std::string name() const override { return "attention_distillation"; }
};

}  // namespace

at::Tensor attention_map(const at::Tensor& qkv, const attention_shape& shape) {
  const below_autograd plain;
  const int64_t columns = qkv.size(1);
  at::Tensor out = at::empty({qkv.size(0), shape.heads, columns, columns},
                             qkv.options().dtype(sum_dtype(qkv.scalar_type())).requires_grad(false));
  for (int64_t r = 0; r < qkv.size(0); ++r) out.select(0, r).copy_(row_heads(qkv.detach().select(0, r), shape).map());
  return out;
}

at::Tensor learn_map(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                     const map_target& target) {
  const int64_t group = shape.heads / shape.kv_heads, columns = qkv.size(1);
  auto node = std::make_shared<map_node>();
  at::Tensor out;
  {
    const below_autograd plain;
    out = qkv.detach();
    node->map_gradient = at::empty_like(out, at::MemoryFormat::Contiguous).zero_();
    TORCH_CHECK(target.map.dim() == 4 && target.map.size(1) == shape.heads && target.map.size(3) == columns, "maps of ",
                target.map.sizes(), " for ", shape.heads, " heads of ", columns, " columns");
    const auto count = static_cast<double>(target.map.numel());
    double squares = 0;
    for (int64_t r = 0; r < out.size(0); ++r) {
      const row_heads heads(out.select(0, r), shape);
      at::Tensor slopes;
      const at::Tensor map = heads.map(&slopes);
      at::Tensor apart = map.sub(target.map.select(0, r));
      squares += square_sum(apart);
      // Multiplies the difference by the derivative of its weighted mean square. The next lines differentiate the
      // softmax and the scores.
      apart.mul_(2 * target.weight * target.scale / count);
      const at::Tensor scores = map.mul(apart.sub(apart.mul(map).sum(-1, /*keepdim=*/true)));
      if (slopes.defined()) scores.mul_(slopes);
      const at::Tensor row = node->map_gradient.select(0, r);
      put_heads(at::bmm(scores, heads.k).mul_(row_heads::scale(shape)), 0, row);
      const at::Tensor of_keys = at::bmm(scores.transpose(1, 2), heads.q);
      put_heads(of_keys.view({shape.kv_heads, group, columns, shape.head_width}).sum(1), shape.heads, row);
    }
    if (target.lost != nullptr) *target.lost += target.weight * squares / count;
  }
  if (!wants_node(qkv)) return qkv;
  attach({&out}, std::move(node), scope, {qkv});
  return out;
}

}  // namespace troupe::models
