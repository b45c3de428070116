// DeepSpeed's `student_initialization`: a model whose modules begin with some layers of a deeper model, as
// `layer_reduction` of a configuration requests. Owns the copying; leaves the choice of tensors to
// job/model/layer_reduction.hpp. Troupe's own families get their first values by `model.teacher`, without both models
// in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "models/host/module_model.hpp"

namespace troupe::compression {

/// Copies the parameters of layer `teacher_layer[i]` of `teacher` to layer i of `student`, the module
/// `module_name_prefix`.i, and those of `other_module_name` to the parameters of the same names; all other parameters
/// and all buffers stay. Returns the number of copied parameters; 0 if layer reduction is off in `config`. Returns
/// every error of job::check_layer_reduction and reduced_layers (bad_input, with file, line and key), e.g. for layers
/// of another shape; on an error nothing has changed.
core::result<uint64_t> student_initialization(const torch::nn::Module& student, const torch::nn::Module& teacher,
                                              const config::job_config& config);
/// Copies parameters of layers of `teacher` to `student`, as `layer_reduction` of `config` requests, and returns their
/// number; on an error nothing has changed. All units of both models must be built; a layer's name begins with the name
/// of its unit.
core::result<uint64_t> student_initialization(const models::module_model& student, const models::module_model& teacher,
                                              const config::job_config& config);

/// Returns the initial values of a student's parameters: [unit][parameter in the order of module_parts]; undefined for
/// a parameter that the teacher does not initialise. The units of `student` need not be built; the returned tensors
/// share the memory of the teacher's.
core::result<std::vector<std::vector<at::Tensor>>> first_values(const models::module_model& student,
                                                                const models::module_model& teacher,
                                                                const config::job_config& config);

}  // namespace troupe::compression
