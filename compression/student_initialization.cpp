#include "compression/student_initialization.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>

#include "compression/host_layers.hpp"
#include "job/model/layer_reduction.hpp"
#include "models/host/module_parts.hpp"

namespace troupe::compression {
namespace {

using models::named_tensor;

/// Returns a table with the names and shapes of the parameters `all`, the form that job/model/layer_reduction.hpp
/// reads.
core::model_table named_table(const std::vector<named_tensor>& all) {
  core::model_table out;
  for (const auto& p : all) {
    core::parameter_info& info = out.parameters.emplace_back();
    info.name = p.name;
    info.shape = p.tensor.sizes().vec();
  }
  return out;
}

std::vector<named_tensor> parameters_of(const torch::nn::Module& m) {
  std::vector<named_tensor> out;
  for (const auto& p : m.named_parameters()) out.push_back({p.key(), p.value()});
  return out;
}

std::vector<named_tensor> parameters_of(const models::module_model& model) {
  std::vector<named_tensor> out;
  for (const auto& unit : model.units)
    for (const auto& p : models::parts_of(unit).parameters) out.push_back({unit.name + "." + p.name, p.tensor});
  return out;
}

/// Returns the initial values of the student's parameters, [parameter of the student]; undefined for a parameter that
/// the teacher does not initialise.
core::result<std::vector<at::Tensor>> values_for(const core::model_table& student,
                                                 const std::vector<named_tensor>& teacher,
                                                 const config::job_config& config) {
  std::vector<at::Tensor> out(student.parameters.size());
  if (!config.compression.layers.enabled) return out;
  TROUPE_TRY(job::check_layer_reduction(config, student));
  std::vector<job::source_tensor> there;
  for (const auto& t : teacher) there.push_back({t.name, t.tensor.sizes().vec()});
  TROUPE_ASSIGN(const auto names, job::reduced_layers(config, student, there));
  for (size_t q = 0; q < out.size(); ++q)
    if (names[q]) out[q] = std::ranges::find(teacher, *names[q], &named_tensor::name)->tensor.detach();
  return out;
}

core::result<uint64_t> copy(const std::vector<named_tensor>& student, const std::vector<named_tensor>& teacher,
                            const config::job_config& config) {
  TROUPE_ASSIGN(const auto values, values_for(named_table(student), teacher, config));
  const at::NoGradGuard no_grad;
  uint64_t copied = 0;
  for (size_t q = 0; q < student.size(); ++q) {
    if (!values[q].defined()) continue;
    student[q].tensor.detach().copy_(values[q]);
    ++copied;
  }
  return copied;
}

}  // namespace

core::result<uint64_t> student_initialization(const torch::nn::Module& student, const torch::nn::Module& teacher,
                                              const config::job_config& config) {
  return copy(parameters_of(student), parameters_of(teacher), config);
}

core::result<uint64_t> student_initialization(const models::module_model& student, const models::module_model& teacher,
                                              const config::job_config& config) {
  return copy(parameters_of(student), parameters_of(teacher), config);
}

core::result<std::vector<std::vector<at::Tensor>>> first_values(const models::module_model& student,
                                                                const models::module_model& teacher,
                                                                const config::job_config& config) {
  TROUPE_ASSIGN(const auto layers, host_layers_of(student, config.seed));
  TROUPE_ASSIGN(const auto values, values_for(layers.table, parameters_of(teacher), config));
  std::vector<std::vector<at::Tensor>> out;
  for (const auto& unit : layers.table.units) {
    out.emplace_back();
    for (const uint32_t q : unit.parameters) out.back().push_back(values[q]);
  }
  return out;
}

}  // namespace troupe::compression
