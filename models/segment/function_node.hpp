// The base class of Troupe's autograd functions: a node with typed members, which reaches the segment's gradient sink
// and attaches itself to its outputs. It costs less than torch::autograd::Function, and intentionally saves weights by
// reference: their bytes may have moved by the time backward reads them. Torch's own node is in function_node.cpp,
// because compiling its header takes eight seconds.
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
  /// Computes the backward: returns one gradient for each input that was passed to `attach`, in order, from the
  /// gradients of the outputs.
  virtual gradient_list apply(gradient_list&& gradients) = 0;
  /// Frees the tensors that were saved for backward; called if no backward will follow.
  virtual void release_variables() {}
  [[nodiscard]] virtual std::string name() const = 0;
  /// True if the node can recompute its outputs from tensors that it keeps anyway, so that the next function need not
  /// keep them for its backward.
  [[nodiscard]] virtual bool makes_again() const { return false; }
  /// Recomputes output number `output`, contiguous, with the bits that forward returned. Called before the node's own
  /// `apply`.
  virtual at::Tensor made_again(uint32_t output);

  std::shared_ptr<sink_slot> slot;
};

/// Disables autograd in its scope: operations record no history and do not track views, as inside ATen's own
/// differentiable operations.
using below_autograd = at::AutoDispatchBelowADInplaceOrView;

/// True if a backward will need a node: grad mode is on and one of the inputs requires a gradient.
template <class... Tensors>
bool wants_node(const Tensors&... inputs) {
  return at::GradMode::is_enabled() && ((inputs.defined() && inputs.requires_grad()) || ...);
}

/// Moves a gradient out of the list that `apply` was given, and returns it contiguous. If only the list referred to it,
/// the caller may overwrite it.
inline at::Tensor taken(at::Tensor& gradient) {
  at::Tensor out = std::exchange(gradient, {});
  if (!out.is_contiguous()) out = out.contiguous();
  return out;
}

/// Returns memory for a result that is computed from `x` element by element: that of `x` itself if no other tensor
/// refers to it, else new memory.
inline at::Tensor in_place_of(const at::Tensor& x) {
  const bool own = x.use_count() == 1 && x.storage().use_count() == 1 && x.is_contiguous();
  return own ? x : at::empty_like(x, at::MemoryFormat::Contiguous);
}

/// Makes `node` the autograd history of `outputs`: its `apply` receives their gradients and returns one gradient for
/// each of `inputs`, in order. Outputs must be new tensors, without other history and not views of inputs.
void attach(const std::vector<at::Tensor*>& outputs, std::shared_ptr<function_node> node, const segment_scope& scope,
            std::initializer_list<at::Tensor> inputs);
/// Makes `node`, which writes no gradients of parameters through a sink, the autograd history of `output`.
void attach(const at::Tensor& output, std::shared_ptr<function_node> node, const std::vector<at::Tensor>& inputs);

/// Returns the function_node that computed `x`, and the index of `x` among its outputs; null if `x` was not computed by
/// one of Troupe's functions.
std::pair<std::shared_ptr<function_node>, uint32_t> function_of(const at::Tensor& x);

}  // namespace troupe::models
