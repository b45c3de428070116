// Computes a transformer block of the host program, one half of it, or a run of layers as one segment of Troupe's
// layers: norms with products, gated and activated MLPs, attention. Owns the search for a block's parts by a policy's
// row; the weights stay those of the host's layers. fused_block.cpp computes the parts, own_layers.hpp puts blocks in
// place.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/inject/layer_policy.hpp"

namespace torch::nn {
class Module;
}

namespace troupe::models {

/// A function that computes a module's forward; autograd stores the gradients of its weights, as for any layer. A
/// second backward through one forward, and a gradient of gradients, throw c10::Error, and so does a backward after the
/// input or a weight has been changed in place.
using tensor_function = std::function<at::Tensor(const at::Tensor&)>;

struct found_block {        ///< result of searching a module for a block's parts by a policy's row
  size_t roles = 0;         ///< number of the row's roles that the module has
  bool matches = false;     ///< true if the module has attention, an MLP or both, and no other weights
  bool attends = false;     ///< true if it has attention
  tensor_function forward;  ///< computes the module; empty: it cannot be computed, see `why`
  /// why a module that matches cannot be computed, or which part a module that does not match lacks
  std::string why;
};

/// Searches `module` for the parts of a block by the row `policy`, whose roles are paths below the module.
found_block block_of(const std::shared_ptr<torch::nn::Module>& module, const layer_policy& policy);

/// Returns the function that computes consecutive layers of a Sequential, beginning with layers[0], and sets `count` to
/// their number: a norm with the linear layer after it, or an MLP (linear layer, activation, linear layer) with or
/// without a norm before it. Returns an empty function if `layers` begins with neither.
tensor_function run_of_layers(const std::vector<std::shared_ptr<torch::nn::Module>>& layers, size_t& count);

/// True if Troupe's kernel computes the norm, a LayerNorm of torch; else sets `why` to the reason.
bool has_own_norm(const torch::nn::Module& module, std::string& why);

}  // namespace troupe::models
