// A transformer block of a host's, or one half of it, or a run of layers, computed as one segment of Troupe's layers:
// norms with products, gated and activated MLPs, attention. Owns finding a block's parts by a policy's row; the weights
// stay those of the host's layers. fused_block.cpp computes the parts, own_layers.hpp puts blocks in place.
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

/// A function that computes a module's forward. The gradients of its weights are autograd's, as those of any layer. A
/// second backward through one forward, and a gradient of gradients, throw c10::Error, and so does a backward after the
/// input or a weight has been changed in place.
using tensor_function = std::function<at::Tensor(const at::Tensor&)>;

struct found_block {        ///< what a policy's row finds in a module
  size_t roles = 0;         ///< number of the row's roles that the module has
  bool matches = false;     ///< true if the module has attention, an MLP or both, and no other weights
  bool attends = false;     ///< true if it has attention
  tensor_function forward;  ///< computes the module; empty: it cannot be computed, see `why`
  std::string why;          ///< reason why a module that matches is not computed; else what it lacks
};

/// Returns what the row `policy` finds in `module`, whose roles are paths below it.
found_block block_of(const std::shared_ptr<torch::nn::Module>& module, const layer_policy& policy);

/// Returns the function that computes consecutive layers of a Sequential, beginning with layers[0], and in `count` how
/// many of them: a norm with the linear layer after it, or an MLP (linear layer, activation, linear layer) with or
/// without a norm before it. Empty: none of these begins there.
tensor_function run_of_layers(const std::vector<std::shared_ptr<torch::nn::Module>>& layers, size_t& count);

/// True if Troupe's kernel computes the norm, a LayerNorm of torch's; else `why` has the reason.
bool has_own_norm(const torch::nn::Module& module, std::string& why);

}  // namespace troupe::models
