// Splits a module into tensors and layers, so that few files need torch::nn.
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
  std::vector<named_tensor> parameters, buffers;  ///< each tensor once, in the module's own order
};

/// Returns the parameters and buffers of a unit; empty for a unit without a module.
module_parts parts_of(const module_unit& unit);

/// Returns the layers of a unit, which is segment 0 of unit `number`, in the order in which its modules were
/// registered, each module once. Torch's linear, embedding, norm, attention, activation and convolution modules and
/// classes derived from them have their kind; any other module that has parameters itself is `other`, with the
/// parameters named `weight` and `bias` as its weight and bias. `index_of` returns a parameter's number in the table.
std::vector<core::layer_info> layers_of(const module_unit& unit, uint32_t number,
                                        const std::function<uint32_t(const at::Tensor&)>& index_of);

/// Returns a function that puts all modules of the model into training or evaluation mode. Modules that are in
/// evaluation mode at this call stay there.
std::function<void(bool training)> mode_switch(const module_model& model);

}  // namespace troupe::models
