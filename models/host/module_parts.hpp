// Lists the tensors and the layers of a module, so that few files need to include torch::nn.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/layer_table.hpp"
#include "models/host/module_model.hpp"

namespace troupe::models {

struct named_tensor {
  std::string name;  ///< name of the tensor inside its module
  at::Tensor tensor;
};

struct module_parts {
  /// Tensors of the module, each once, in the order in which it registered them.
  std::vector<named_tensor> parameters, buffers;
};

/// Returns the parameters and buffers of a unit; empty for a unit without a module.
module_parts parts_of(const module_unit& unit);

/// Returns the layers of a unit, which is unit `number` of the table and has one segment, in the order in which its
/// modules were registered, each module once. Torch's linear, embedding, norm, attention, activation and convolution
/// modules and classes derived from them have their kind; any other module that has parameters itself is `other`, with
/// the parameters named `weight` and `bias` as its weight and bias. `index_of` must return a parameter's index in the
/// table.
std::vector<core::layer_info> layers_of(const module_unit& unit, uint32_t number,
                                        const std::function<uint32_t(const at::Tensor&)>& index_of);

/// Returns a function that puts all modules of the model into training mode (true) or evaluation mode (false). Modules
/// that are in evaluation mode when mode_switch() is called stay in it.
std::function<void(bool training)> mode_switch(const module_model& model);

}  // namespace troupe::models
