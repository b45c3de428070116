// An MLP in row tiles. The input of its activation, the widest tensor of a block, exists for some rows (tokens) at a
// time: forward computes both products of these rows, backward recomputes the first one. Owns the order of the tiles;
// row_panels.hpp determines which rows are multiplied together.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "models/layers/functions.hpp"
#include "models/layers/gradient_sums.hpp"
#include "models/segment/function_node.hpp"
#include "models/segment/kept_tensor.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

at::Tensor rows_like(const at::Tensor& x, int64_t rows, int64_t width) {
  return at::empty({rows, width}, x.options().requires_grad(false));
}

/// Returns copies of the first and of the second half of each row of `x`.
std::vector<at::Tensor> halves_of(const at::Tensor& x) {
  const int64_t half = x.size(1) / 2;
  return {x.narrow(1, 0, half).contiguous(), x.narrow(1, half, half).contiguous()};
}

/// Computes the first layers of an MLP over rows (N, C), one tile of rows after the other.
class tiles_of_mlp {
 public:
  tiles_of_mlp(const at::Tensor& x, const mlp_layers& layers, uint64_t tile_rows)
      : x_(x), layers_(layers), tile_rows_(std::min(static_cast<int64_t>(tile_rows), x.size(0))) {
    for (const projection& p : layers.inputs) rooms_.push_back(rows_like(x, tile_rows_, p.outputs()));
  }

  /// Calls f(first, count, rows, before) for each tile: `rows` is the input of the MLP's first layers, `before` the
  /// inputs of the activation, which f may overwrite. `statistics`, if not null, receives the norm's mean and rstd of
  /// all rows.
  void for_each(normed_rows* statistics, auto f) {
    for (int64_t first = 0; first < x_.size(0); first += tile_rows_) {
      const int64_t count = std::min(tile_rows_, x_.size(0) - first);
      const at::Tensor taken = normed(first, count, statistics);
      std::vector<at::Tensor> before;
      for (size_t i = 0; i < layers_.inputs.size(); ++i) {
        before.push_back(rooms_[i].narrow(0, 0, count));
        layers_.inputs[i].forward_out(before.back(), taken, first);
      }
      if (layers_.is_packed) before = halves_of(before.front());
      f(first, count, taken, before);
    }
  }

 private:
  /// Returns rows [first, first + count) after the norm, or as they are without one; stores their mean and rstd in
  /// `statistics` if it is not null.
  at::Tensor normed(int64_t first, int64_t count, normed_rows* statistics) const {
    const at::Tensor rows = x_.narrow(0, first, count);
    if (!layers_.norm) return rows;
    normed_rows out = layers_.norm->forward(rows);
    if (statistics != nullptr) {
      statistics->rstd.narrow(0, first, count).copy_(out.rstd);
      if (out.mean.defined()) statistics->mean.narrow(0, first, count).copy_(out.mean);
    }
    return out.y;
  }

  const at::Tensor& x_;
  const mlp_layers& layers_;
  int64_t tile_rows_;
  std::vector<at::Tensor> rooms_;
};

at::Tensor forward_of(const at::Tensor& x, const mlp_layers& layers, uint64_t tile_rows) {
  at::Tensor y = layers.output.room_for(x);
  tiles_of_mlp(x, layers, tile_rows).for_each(nullptr, [&](int64_t first, int64_t count, auto&, auto& before) {
    at::Tensor part = y.narrow(0, first, count);
    layers.output.forward_out(part, activated_rows(layers.act, before), first);
  });
  return y;
}

struct tiled_mlp_node final : function_node {
  at::Tensor x;  // input of the MLP, (N, C)
  mlp_layers layers;
  uint64_t tile_rows = 0;

  /// Computes the backward. `gradients` has the gradient of the output, then, if there is a norm, the gradient of the
  /// residual path.
  gradient_list apply(gradient_list&& gradients) override {
    const auto shape = gradients[0].sizes().vec();
    const int64_t rows = x.size(0);
    at::Tensor dx = rows_like(x, rows, x.size(1));
    normed_rows statistics;
    if (layers.norm) {
      const auto numbers = x.options().dtype(sum_dtype(x.scalar_type())).requires_grad(false);
      statistics.rstd = at::empty({rows}, numbers);
      if (layers.norm->bias) statistics.mean = at::empty({rows}, numbers);
    }
    go_back(as_rows(taken(gradients[0])), dx, statistics);
    if (!layers.norm) return {dx.view(shape)};
    at::Tensor& last = gradients.back();
    const at::Tensor past = last.defined() ? as_rows(taken(last)) : at::Tensor();
    return {layers.norm->backward(*slot, x, statistics, std::move(dx), past).view(shape)};
  }
  void release_variables() override { x.reset(); }
  [[nodiscard]] std::string name() const override { return "tiled_mlp"; }

 private:
  void go_back(const at::Tensor& g, const at::Tensor& dx, normed_rows& statistics) {
    gradient_sums of_output(*slot, layers.output, x.size(0));
    std::deque<gradient_sums> of_inputs;
    for (const projection& p : layers.inputs) of_inputs.emplace_back(*slot, p, x.size(0));
    tiles_of_mlp(x, layers, tile_rows)
        .for_each(&statistics, [&](int64_t first, int64_t count, const at::Tensor& rows, auto& before) {
          const at::Tensor of_y = g.narrow(0, first, count);
          auto back = activated_backward(layers.act, before, layers.output.input_gradient(of_y, first));
          of_output.add(back.y, of_y);
          if (layers.is_packed) back.before = {at::cat(back.before, 1)};
          at::Tensor to = dx.narrow(0, first, count);
          for (size_t i = 0; i < layers.inputs.size(); ++i) {
            of_inputs[i].add(rows, back.before[i]);
            if (i == 0)
              layers.inputs[i].input_gradient_out(to, back.before[i], first);
            else
              to.add_(layers.inputs[i].input_gradient(back.before[i], first));
          }
        });
    of_output.finish();
    for (gradient_sums& each : of_inputs) each.finish();
  }
};

}  // namespace

normed_outputs tiled_mlp(const segment_scope& scope, const at::Tensor& x, mlp_layers layers, uint64_t tile_rows) {
  normed_outputs out;
  at::Tensor rows;
  {
    const below_autograd plain;
    rows = as_rows(x.detach().contiguous());
    out.y.push_back(scope.batch().wants_output ? like_rows_of(forward_of(rows, layers, tile_rows), x)
                                               : without_elements(x, layers.output.outputs()));
  }
  out.past = x;
  if (!wants_node(x)) return out;
  auto node = std::make_shared<tiled_mlp_node>();
  node->x = std::move(rows);
  node->layers = std::move(layers);
  node->tile_rows = tile_rows;
  std::vector<at::Tensor*> outputs{&out.y.front()};
  if (node->layers.norm) {
    out.past = x.detach();
    outputs.push_back(&out.past);
  }
  attach(outputs, std::move(node), scope, {x});
  return out;
}

}  // namespace troupe::models
