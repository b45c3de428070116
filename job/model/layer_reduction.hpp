// Decides from which tensors of a deeper model (the source) the parameters of a model with fewer layers start
// (DeepSpeed's student_initialization). Owns this choice and its refusals; the session reads the tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"

namespace troupe::job {

/// Checks `compression_training.layer_reduction` as far as that is possible without the deeper model. Refused
/// (bad_input), with file, line and key: a number of layers that differs from the model's, module names that match
/// nothing in it.
core::result<void> check_layer_reduction(const config::job_config& config, const core::model_table& model);

/// A tensor of the deeper model from which layers are copied.
struct source_tensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// Returns, for each parameter of `model`, the name of the tensor of the deeper model `source` from which it starts:
/// for layer i the tensor of layer `teacher_layer[i]`, for other modules the tensor of the same name; nullopt: the
/// parameter keeps its usual initial values. Names that differ are compared as bare names
/// (formats/names/name_map.hpp). Refused (bad_input), with file, line and key: layers and tensors that the source
/// does not have, or has several times, and tensors of another shape.
core::result<std::vector<std::optional<std::string>>> reduced_layers(const config::job_config& config,
                                                                     const core::model_table& model,
                                                                     const std::vector<source_tensor>& source);

}  // namespace troupe::job
