// Puts Troupe's fused layers into the torch::nn modules of a host program that calls its modules itself, without a
// session. The rows of layer_policy.hpp state the roles of the modules; a probe batch reveals a wrong row. Owns the
// trial; own_layers.hpp owns the replacements.
//
//   auto policy = *models::layer_policy_named("HFGPT2LayerPolicy");
//   policy.heads = 12;
//   auto own = models::inject(model.ptr(), policy, [&] { return loss_of(model, small_batch); });
//   std::printf("%s", models::text_of(own->layers()).c_str());
//   own->revert();  // the host's modules, the same objects with the same weights
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "core/error.hpp"
#include "models/inject/layer_policy.hpp"
#include "models/inject/own_layers.hpp"

namespace troupe::models {

/// Replaces the modules in `model` and in the AnyModules `slots` that `policy` and the layers' types allow. The result
/// lists all layers, with the reason for each that is not replaced; its destructor or its revert() puts the host's
/// modules back. Weights stay the host's: the same tensors, read at each forward, with gradients in the same places.
///
/// `probe` computes the host's model forward on one small batch, of the same number of tokens as later ones, and
/// returns the loss or the output. It must call each module that is replaced, attention with at least two tokens a
/// sample. It is called with the host's modules, once more while inputs are recorded, and with Troupe's; generators of
/// random numbers start from the same states each time, buffers are as before afterwards, and gradients of parameters
/// are not touched. Each replaced module is computed forward and backward both ways, in training mode, on its input in
/// the probe and on a hundredth of it; parameters that are all 0 have random values meanwhile.
///
/// Errors (bad_input), after which the host's modules are back: no model, an empty slot; a refused policy; a policy
/// whose blocks no module matches, with the nearest module and policy; a probe that throws or does not call a module;
/// modules not in fp32 or fp64; a module that differs by more than 1e-5 of the largest value (comparison.hpp), the
/// first in the order of the forward.
core::result<own_layers> inject(const std::shared_ptr<torch::nn::Module>& model, const layer_policy& policy,
                                const std::function<at::Tensor()>& probe,
                                const std::vector<own_layers::slot>& slots = {});

}  // namespace troupe::models
