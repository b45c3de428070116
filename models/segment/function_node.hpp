// The base of Troupe's autograd functions: a node with typed members, which reaches the segment's gradient sink and
// attaches itself to its output. Lighter than torch::autograd::Function, and intentionally saves weights by reference:
// their bytes may have moved by the time backward reads them. Torch's own node is in function_node.cpp, because its
// header costs a compiler eight seconds.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/segment/segment_scope.hpp"
#include "models/segment/weight.hpp"

namespace troupe::models {

using gradient_list = std::vector<at::Tensor>;

struct function_node {
  virtual ~function_node() = default;
  /// Returns one gradient for each input that `attach` was given, in order, from those of its outputs.
  virtual gradient_list apply(gradient_list&& gradients) = 0;
  /// Frees the tensors that were saved for backward, if no backward will follow.
  virtual void release_variables() {}
  [[nodiscard]] virtual std::string name() const = 0;
  /// True if the node can recompute its outputs, for the backward of the next function, from tensors that it keeps
  /// anyway.
  [[nodiscard]] virtual bool makes_again() const { return false; }
  /// Returns a recomputed output, contiguous, with the bits that forward returned; called before the node's own
  /// `apply`.
  virtual at::Tensor made_again(uint32_t output);

  std::shared_ptr<sink_slot> slot;
};

/// Disables autograd in its scope: operations record no history and track no views, as inside ATen's own differentiable
/// operations.
using below_autograd = at::AutoDispatchBelowADInplaceOrView;

/// True if a backward will follow: grad mode is on and one of the inputs depends on the segment's input.
template <class... Tensors>
bool wants_node(const Tensors&... inputs) {
  return at::GradMode::is_enabled() && ((inputs.defined() && inputs.requires_grad()) || ...);
}

/// Takes a gradient out of the list that `apply` was given, contiguous; not shared if only the list held it.
inline at::Tensor taken(at::Tensor& gradient) {
  at::Tensor out = std::exchange(gradient, {});
  if (!out.is_contiguous()) out = out.contiguous();
  return out;
}

/// Returns memory for a result that replaces `x` element by element: that of `x` itself if nothing else holds it.
inline at::Tensor in_place_of(const at::Tensor& x) {
  const bool own = x.use_count() == 1 && x.storage().use_count() == 1 && x.is_contiguous();
  return own ? x : at::empty_like(x, at::MemoryFormat::Contiguous);
}

/// Makes `node` the history of `outputs`. Its `apply` receives their gradients and returns one gradient for each of
/// `inputs`, in order. Outputs must be new tensors: without other history, and no views of inputs.
void attach(const std::vector<at::Tensor*>& outputs, std::shared_ptr<function_node> node, const segment_scope& scope,
            std::initializer_list<at::Tensor> inputs);

/// Returns the function that `x` is an output of, and the number of that output; null if it is none of Troupe's
/// functions.
std::pair<std::shared_ptr<function_node>, uint32_t> function_of(const at::Tensor& x);

}  // namespace troupe::models
