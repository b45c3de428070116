// What our autograd functions share: a node that holds typed members, reaches the segment's gradient sink, and
// hooks itself to its output. Lighter than torch::autograd::Function, and saves weights by reference on purpose:
// their bytes may have moved by the time backward reads them.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <utility>

#include "models/layers/segment_scope.hpp"
#include "models/layers/weight.hpp"

namespace troupe::models {

struct function_node : torch::autograd::Node {
  std::shared_ptr<sink_slot> slot;
};

/// In its scope operations leave no history and track no views, as inside ATen's own differentiable operations.
using below_autograd = at::AutoDispatchBelowADInplaceOrView;

/// True where a backward will be asked for: grad mode is on and one of the inputs leads to the segment's input.
template <class... Tensors>
bool wants_node(const Tensors&... inputs) {
  return torch::autograd::compute_requires_grad(inputs...);
}

/// A gradient out of the list that `apply` was given, contiguous, and nobody else's if it was the list's alone.
inline at::Tensor taken(at::Tensor& gradient) {
  at::Tensor out = std::exchange(gradient, {});
  if (!out.is_contiguous()) out = out.contiguous();
  return out;
}

/// Memory for what takes the place of `x`, element by element: its own where nobody else holds it.
inline at::Tensor in_place_of(const at::Tensor& x) {
  const bool own = x.use_count() == 1 && x.storage().use_count() == 1 && x.is_contiguous();
  return own ? x : at::empty_like(x, at::MemoryFormat::Contiguous);
}

/// Makes `node` the history of `output`. Its `apply` receives the gradient of `output` and returns one gradient for
/// each of `inputs`, in order. `output` is fresh: no other history, no view of an input.
template <class Node, class... Tensors>
void attach(at::Tensor& output, std::shared_ptr<Node> node, const segment_scope& scope, const Tensors&... inputs) {
  node->slot = scope.slot();
  node->set_next_edges(torch::autograd::collect_next_edges(inputs...));
  torch::autograd::set_history(output, node);
}

}  // namespace troupe::models
