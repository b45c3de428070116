// Activations with ATen's autograd history, and activations of rows without history, as tiled MLPs need them.
// linear.cpp computes an activation together with the linear layer after it.
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/hardswish_backward.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/hardtanh_backward.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/leaky_relu_backward.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/mish_backward.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/softplus_backward.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/threshold_backward.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "models/layers/functions.hpp"
#include "models/segment/function_node.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

/// True if one of Troupe's kernels computes the activation: of one input, or of two, a gate and the values that it
/// multiplies.
bool has_kernel(activation act, size_t inputs) {
  return act == (inputs == 1 ? activation::gelu_tanh : activation::silu);
}

/// Slope of leaky_relu below 0, limits of relu6 and of gelu_10, factor of quick_gelu, mean and deviation of laplace,
/// and the threshold above which softplus is its input, as in transformers and in PyTorch.
constexpr double slope_below = 0.01, relu_most = 6, gelu_most = 10, quick_factor = 1.702;
constexpr double laplace_mean = 0.707107, laplace_deviation = 0.282095, softplus_threshold = 20;

/// True if ATen has the activation as one operation, so that its own autograd history keeps one tensor.
bool is_one_operation(activation act) {
  switch (act) {
    case activation::gelu_clipped:
    case activation::laplace:
    case activation::quick_gelu:
    case activation::relu_squared:
    case activation::sqrt_softplus:
      return false;
    default:
      return true;
  }
}

/// Returns (x - mean) / (deviation * sqrt(2)) of laplace.
at::Tensor laplace_argument(const at::Tensor& x) {
  return x.sub(laplace_mean).div_(laplace_deviation * std::numbers::sqrt2);
}

/// Returns act(x).
at::Tensor values_of(activation act, const at::Tensor& x) {
  switch (act) {
    case activation::gelu_tanh:
      return at::gelu(x, "tanh");
    case activation::gelu_exact:
      return at::gelu(x);
    case activation::silu:
      return at::silu(x);
    case activation::relu:
      return at::relu(x);
    case activation::gelu_clipped:
      return at::gelu(x).clamp_(-gelu_most, gelu_most);
    case activation::hardswish:
      return at::hardswish(x);
    case activation::laplace:
      return laplace_argument(x).erf_().add_(1).mul_(0.5);
    case activation::leaky_relu:
      return at::leaky_relu(x, slope_below);
    case activation::linear:
      return x;
    case activation::mish:
      return at::mish(x);
    case activation::quick_gelu:
      return at::silu(x.mul(quick_factor)).div_(quick_factor);
    case activation::relu6:
      return at::hardtanh(x, 0, relu_most);
    case activation::relu_squared:
      return at::relu(x).square_();
    case activation::sigmoid:
      return at::sigmoid(x);
    case activation::sqrt_softplus:
      return at::softplus(x).sqrt_();
    case activation::tanh:
      return at::tanh(x);
  }
  return x;
}

/// Returns the first number above `limit` in the type in which ATen computes with elements of `x`.
double above(double limit, const at::Tensor& x) {
  if (x.scalar_type() == at::kDouble) return std::nextafter(limit, std::numeric_limits<double>::infinity());
  return std::nextafter(static_cast<float>(limit), std::numeric_limits<float>::infinity());
}

/// Returns the gradient of x from dy, the gradient of y = act(x), with the bits that ATen's autograd would give where
/// the activation is one operation of ATen. Allocates no other tensor of the size of x, except a mask.
at::Tensor activate_backward(activation act, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& y) {
  switch (act) {
    case activation::gelu_tanh:
      return at::gelu_backward(dy, x, "tanh");
    case activation::gelu_exact:
      return at::gelu_backward(dy, x);
    case activation::silu:
      return at::silu_backward(dy, x);
    case activation::relu:
      return at::threshold_backward(dy, y, 0);
    case activation::gelu_clipped: {
      // GELU(x) is above 10 where x is, and nowhere near -10.
      at::Tensor dx = at::gelu_backward(dy, x);
      at::hardtanh_backward_out(dx, dx, x, std::numeric_limits<float>::lowest(), above(gelu_most, x));
      return dx;
    }
    case activation::hardswish:
      return at::hardswish_backward(dy, x);
    case activation::laplace: {
      const double density = 1 / (laplace_deviation * std::sqrt(2 * std::numbers::pi));
      return laplace_argument(x).square_().neg_().exp_().mul_(density).mul_(dy);
    }
    case activation::leaky_relu:
      return at::leaky_relu_backward(dy, x, slope_below, /*self_is_result=*/false);
    case activation::linear:
      return dy;
    case activation::mish:
      return at::mish_backward(dy, x);
    case activation::quick_gelu: {
      at::Tensor dx = x.mul(quick_factor);
      at::silu_backward_out(dx, dy, dx);
      return dx;
    }
    case activation::relu6:
      return at::hardtanh_backward(dy, x, 0, relu_most);
    case activation::relu_squared:
      return at::relu(x).mul_(2).mul_(dy);
    case activation::sigmoid:
      return at::sigmoid_backward(dy, y);
    case activation::sqrt_softplus:
      // Where softplus underflows, the quotient is 0 / 0, and the exact gradient is nearly 0.
      return at::softplus_backward(dy, x, 1, softplus_threshold).div_(y).mul_(0.5).masked_fill_(y.eq(0), 0);
    case activation::tanh:
      return at::tanh_backward(dy, y);
  }
  return dy;
}

/// An activation that ATen computes by several operations: keeps its input alone.
struct activation_node final : function_node {
  at::Tensor x;
  activation act = activation::linear;

  gradient_list apply(gradient_list&& gradients) override {
    const at::Tensor dy = taken(gradients[0]), before = std::exchange(x, {});
    const at::Tensor y = act == activation::sqrt_softplus ? values_of(act, before) : at::Tensor();
    return {activate_backward(act, dy, before, y)};
  }
  void release_variables() override { x.reset(); }
  [[nodiscard]] std::string name() const override { return "activation"; }
};

}  // namespace

at::Tensor activate(const at::Tensor& x, activation act) {
  if (is_one_operation(act) || !wants_node(x)) return values_of(act, x);
  auto node = std::make_shared<activation_node>();
  node->act = act;
  at::Tensor y;
  {
    const below_autograd plain;
    node->x = x.detach();
    y = values_of(act, node->x);
  }
  attach(y, std::move(node), std::vector<at::Tensor>{x});
  return y;
}

at::Tensor activated_rows(activation act, const std::vector<at::Tensor>& before) {
  at::Tensor x = before[0];
  const core::dtype type = core_dtype(x.scalar_type());
  if (!has_kernel(act, before.size())) return before.size() == 1 ? activate(x, act) : activate(x, act).mul_(before[1]);
  if (before.size() == 1)
    kernels_for(x).gelu_tanh(bytes_of(x), bytes_in(x), type, count_of(x));
  else
    kernels_for(x).silu_gated(bytes_of(x), bytes_of(before[1]), bytes_in(x), type, count_of(x));
  return x;
}

activated_gradients activated_backward(activation act, const std::vector<at::Tensor>& before, at::Tensor dy) {
  const at::Tensor& x = before[0];
  const core::dtype type = core_dtype(x.scalar_type());
  if (has_kernel(act, before.size())) {
    const uint64_t count = count_of(x);
    if (before.size() == 1) {
      kernels_for(x).gelu_tanh_backward(bytes_of(x), bytes_of(dy), bytes_in(dy), type, count, bytes_in(x));
      return {x, {std::move(dy)}};
    }
    const at::Tensor& up = before[1];
    kernels_for(x).silu_gated_backward(bytes_of(x), bytes_of(up), bytes_of(dy), bytes_in(dy), bytes_in(up), type, count,
                                       bytes_in(x));
    return {x, {std::move(dy), up}};
  }
  at::Tensor y = activate(x, act);
  if (before.size() == 1) {
    at::Tensor dx = activate_backward(act, dy, x, y);
    return {std::move(y), {std::move(dx)}};
  }
  at::Tensor dup = dy.mul(y);
  at::Tensor dgate = activate_backward(act, dy.mul_(before[1]), x, y);
  return {y.mul_(before[1]), {std::move(dgate), std::move(dup)}};
}

}  // namespace troupe::models
