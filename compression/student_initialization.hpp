// DeepSpeed's `student_initialization`: modules that begin with some layers of deeper ones, as `layer_reduction` of a
// configuration says. Owns the copying; which tensor goes where is job/layer_reduction.hpp's rule. A family's model has
// it by `model.teacher`, without both in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "models/host/module_model.hpp"

namespace troupe::compression {

/// Parameters of layer i of `student`, the module `module_name_prefix`.i, become those of layer `teacher_layer[i]` of
/// `teacher`, those of `other_module_name` the teacher's of the same names; all others stay, and so do buffers. Returns
/// how many were copied. Refused (bad_input), with file, line and key: what job::check_layer_reduction and
/// reduced_layers refuse, as layers of another shape; then nothing has changed. Off in `config`: copies nothing.
core::result<uint64_t> student_initialization(const torch::nn::Module& student, const torch::nn::Module& teacher,
                                              const config::job_config& config);
/// The same of models in units, all of which are built: a layer's name begins with its unit's.
core::result<uint64_t> student_initialization(const models::module_model& student, const models::module_model& teacher,
                                              const config::job_config& config);

/// What a student's parameters begin with: [unit][parameter as module_parts has them], undefined where they keep their
/// own. Of a student whose units need not be built; tensors are the teacher's.
core::result<std::vector<std::vector<at::Tensor>>> first_values(const models::module_model& student,
                                                                const models::module_model& teacher,
                                                                const config::job_config& config);

}  // namespace troupe::compression
