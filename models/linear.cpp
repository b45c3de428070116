// Linear layers whose weight gradient goes straight to its bucket.
#include "kernels/column_sums.hpp"
#include "models/function_node.hpp"
#include "models/functions.hpp"
#include "models/products.hpp"
#include "models/torch_dtype.hpp"

namespace troupe::models {
namespace {

at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

std::vector<int64_t> with_last(const at::Tensor& x, int64_t last) {
  auto shape = x.sizes().vec();
  shape.back() = last;
  return shape;
}

/// out (C) = the sums of the columns of g (N, C), whose elements lie side by side.
void sum_columns(const at::Tensor& g, at::Tensor& out) {
  kernels::column_sums(static_cast<const std::byte*>(g.const_data_ptr()), core_dtype(g.scalar_type()),
                       static_cast<uint64_t>(g.size(0)), static_cast<uint64_t>(g.size(1)),
                       static_cast<uint64_t>(g.stride(0)), static_cast<std::byte*>(out.mutable_data_ptr()),
                       core_dtype(out.scalar_type()));
}

struct linear_node final : function_node {
  at::Tensor x;  // (N, in)
  weight w;
  std::optional<weight> bias;
  weight_layout layout = weight_layout::in_out;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const at::Tensor g = as_rows(gradients[0].contiguous());
    const at::Tensor& matrix = w.bound();
    if (w.trainable) {
      gradient_writer dw(*slot, w);
      if (layout == weight_layout::in_out) {
        product_out(dw.out(), x.t(), g);
      } else {
        product_out(dw.out(), g.t(), x);
      }
      dw.commit();
    }
    x.reset();
    if (bias && bias->trainable) {
      gradient_writer db(*slot, *bias);
      sum_columns(g, db.out());
      db.commit();
    }
    const at::Tensor dx = product(g, layout == weight_layout::in_out ? matrix.t() : matrix);
    return {dx.view(with_last(gradients[0], dx.size(1)))};
  }
  void release_variables() override { x.reset(); }
  [[nodiscard]] std::string name() const override { return "linear"; }
};

}  // namespace

at::Tensor linear(const segment_scope& scope, const at::Tensor& x, const weight& w, const std::optional<weight>& bias,
                  weight_layout layout) {
  at::Tensor y, rows;
  {
    const below_autograd plain;
    rows = as_rows(x.detach());
    const at::Tensor& matrix = w.bound();
    const at::Tensor by = layout == weight_layout::in_out ? matrix : matrix.t();
    y = product(rows, by, bias ? bias->bound() : at::Tensor());
    y = y.view(with_last(x, y.size(1)));
  }
  if (!wants_node(x)) return y;
  auto node = std::make_shared<linear_node>();
  node->x = std::move(rows);
  node->w = w;
  node->bias = bias;
  node->layout = layout;
  attach(y, std::move(node), scope, x);
  return y;
}

}  // namespace troupe::models
