// Layer norm and RMS norm, their weights' gradients written straight to their buckets.
#include <ATen/ops/mul.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/sum.h>

#include "models/function_node.hpp"
#include "models/functions.hpp"
#include "models/torch_dtype.hpp"

namespace troupe::models {
namespace {

/// Norm weights in the type of the sums: ATen then keeps mean and deviation in it too, instead of rounding them to
/// eight bits before backward uses them.
at::Tensor widened(const weight& w) { return w.bound().to(sum_dtype(w.tensor.scalar_type())); }

void write(const sink_slot& slot, const weight& parameter, const at::Tensor& gradient) {
  gradient_writer writer(slot, parameter);
  writer.out().copy_(gradient);
  writer.commit();
}

struct layer_norm_node final : function_node {
  at::Tensor x, mean, rstd;
  weight w, bias;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    auto [dx, dw, db] = at::native_layer_norm_backward(gradients[0].contiguous(), x, {x.size(-1)}, mean, rstd,
                                                       widened(w), widened(bias), {true, true, true});
    write(*slot, w, dw);
    write(*slot, bias, db);
    return {std::move(dx)};
  }
  void release_variables() override {
    x.reset();
    mean.reset();
    rstd.reset();
  }
  [[nodiscard]] std::string name() const override { return "layer_norm"; }
};

struct rms_norm_node final : function_node {
  at::Tensor x, rstd;  // (.., C), (.., 1) in fp32
  weight w;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const at::ScalarType wide = sum_dtype(x.scalar_type());
    const at::Tensor g = gradients[0].to(wide);
    const at::Tensor normed = x.to(wide).mul_(rstd);
    write(*slot, w, g.mul(normed.to(x.scalar_type())).reshape({-1, x.size(-1)}).sum(0));
    // dx = rstd * (h - normed * mean(h * normed)) with h = g * w
    const at::Tensor h = g.mul(w.bound());
    const at::Tensor inner = h.mul(normed).mean(-1, /*keepdim=*/true);
    return {h.sub(normed.mul(inner)).mul_(rstd).to(x.scalar_type())};
  }
  void release_variables() override {
    x.reset();
    rstd.reset();
  }
  [[nodiscard]] std::string name() const override { return "rms_norm"; }
};

}  // namespace

at::Tensor layer_norm(const segment_scope& scope, const at::Tensor& x, const weight& w, const weight& bias,
                      double epsilon) {
  at::Tensor y, mean, rstd;
  {
    const below_autograd plain;
    std::tie(y, mean, rstd) = at::native_layer_norm(x.detach(), {x.size(-1)}, widened(w), widened(bias), epsilon);
  }
  if (!wants_node(x)) return y;
  auto node = std::make_shared<layer_norm_node>();
  node->x = x.detach();
  node->mean = std::move(mean);
  node->rstd = std::move(rstd);
  node->w = w;
  node->bias = bias;
  attach(y, std::move(node), scope, x);
  return y;
}

at::Tensor rms_norm(const segment_scope& scope, const at::Tensor& x, const weight& w, double epsilon) {
  at::Tensor y, rstd;
  {
    const below_autograd plain;
    const at::Tensor wide = x.detach().to(sum_dtype(x.scalar_type()));
    rstd = wide.square().mean(-1, /*keepdim=*/true).add_(epsilon).rsqrt_();
    y = wide.mul(rstd).to(x.scalar_type()).mul_(w.bound());
  }
  if (!wants_node(x)) return y;
  auto node = std::make_shared<rms_norm_node>();
  node->x = x.detach();
  node->rstd = std::move(rstd);
  node->w = w;
  attach(y, std::move(node), scope, x);
  return y;
}

}  // namespace troupe::models
