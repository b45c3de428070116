// A module taken apart into tensors, so that only one file needs to see torch::nn.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/host/module_model.hpp"

namespace troupe::models {

struct named_tensor {
  std::string name;  ///< inside its module
  at::Tensor tensor;
};

struct module_parts {
  std::vector<named_tensor> parameters, buffers;  ///< each tensor once, in the module's own order
};

/// Empty for a unit without a module.
module_parts parts_of(const module_unit& unit);

/// Puts all modules of the model into training mode, each as it was when this was called, or into evaluation mode.
/// Modules that the host froze in evaluation mode stay there.
std::function<void(bool training)> mode_switch(const module_model& model);

}  // namespace troupe::models
