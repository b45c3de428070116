// Activations with ATen's autograd history, and activations of rows without history, as tiled MLPs need them.
// linear.cpp computes an activation together with the linear layer after it.
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/threshold_backward.h>

#include <utility>

#include "models/layers/functions.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

/// True if one of Troupe's kernels computes the activation: of one input, or of two, a gate and the values that it
/// multiplies.
bool has_kernel(activation act, size_t inputs) {
  return act == (inputs == 1 ? activation::gelu_tanh : activation::silu);
}

/// Returns the gradient of x from dy, the gradient of y = act(x), with the bits that ATen's autograd would give.
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
  }
  return dy;
}

}  // namespace

at::Tensor activate(const at::Tensor& x, activation act) {
  switch (act) {
    case activation::gelu_tanh:
      return at::gelu(x, "tanh");
    case activation::gelu_exact:
      return at::gelu(x);
    case activation::silu:
      return at::silu(x);
    case activation::relu:
      return at::relu(x);
  }
  return x;
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
