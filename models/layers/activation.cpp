// Activations that are layers of their own, by ATen; those in front of a linear layer are linear.cpp's.
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include "models/layers/functions.hpp"

namespace troupe::models {

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

}  // namespace troupe::models
