// The one library file that sees torch::nn.
#include "models/host/module_parts.hpp"

#include <torch/nn/module.h>

#include <algorithm>
#include <utility>

namespace troupe::models {
namespace {

void add(std::vector<named_tensor>& to, const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  if (std::none_of(to.begin(), to.end(), [&](const named_tensor& x) { return x.tensor.is_same(tensor); }))
    to.push_back({name, tensor});
}

}  // namespace

module_parts parts_of(const module_unit& unit) {
  module_parts out;
  if (unit.module == nullptr) return out;
  for (const auto& p : unit.module->named_parameters()) add(out.parameters, p.key(), p.value());
  for (const auto& b : unit.module->named_buffers()) add(out.buffers, b.key(), b.value());
  return out;
}

std::function<void(bool)> mode_switch(const module_model& model) {
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes;
  for (const auto& u : model.units)
    if (u.module != nullptr)
      for (const auto& m : u.module->modules()) modes.emplace_back(m, m->is_training());
  return [modes = std::move(modes)](bool training) {
    // parents come before their children, which they set as well
    for (const auto& [module, own] : modes) module->train(training && own);
  };
}

}  // namespace troupe::models
