// Layers that a model begins with out of a deeper one's (DeepSpeed's student_initialization). Owns which of the
// source's tensors each parameter is read from, and the refusals; who reads them is the session's business.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"

namespace troupe::job {

/// What can be said before the source is open. Refused (bad_input), with file, line and key: a number of layers that is
/// not the model's, module names that find nothing in it.
core::result<void> check_layer_reduction(const config::job_config& config, const core::model_table& model);

/// A tensor of the source.
struct source_tensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// [parameter of `model`]: the tensor of the source that it begins with: layer i's of layer `teacher_layer[i]`, of
/// other modules of the same name; none: its first values. Names that differ are compared as bare names
/// (checkpoint/source/name_map.hpp). Refused (bad_input), with file, line and key: layers and tensors that the source
/// does not have, or has several times, and tensors of another shape.
core::result<std::vector<std::optional<std::string>>> reduced_layers(const config::job_config& config,
                                                                     const core::model_table& model,
                                                                     const std::vector<source_tensor>& source);

}  // namespace troupe::job
