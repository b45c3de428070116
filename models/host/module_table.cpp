#include "models/host/module_table.hpp"

#include <algorithm>
#include <unordered_map>

#include "models/host/module_parts.hpp"

namespace troupe::models {
namespace {

using core::error_kind;

using parameter_numbers = std::unordered_map<const c10::TensorImpl*, uint32_t>;

/// Calls `visit(unit number, parameter number, is new, name, tensor)` for every parameter of every unit.
template <class F>
parameter_numbers for_each_parameter(const module_model& model, F visit) {
  parameter_numbers known;
  for (size_t u = 0; u < model.units.size(); ++u)
    for (const auto& [name, tensor] : parts_of(model.units[u]).parameters) {
      const auto [it, is_new] = known.emplace(tensor.unsafeGetTensorImpl(), static_cast<uint32_t>(known.size()));
      visit(u, it->second, is_new, model.units[u].name + "." + name, tensor);
    }
  return known;
}

std::string quoted(const std::string& name) { return std::string("'").append(name).append("'"); }

core::result<void> check_units(const module_model& model) {
  if (model.units.empty()) return core::fail(error_kind::bad_input, "own model: wanted at least one unit, got none");
  if (!model.loss) return core::fail(error_kind::bad_input, "own model: wanted a loss, got none");
  for (auto u = model.units.begin(); u != model.units.end(); ++u) {
    const auto same = [&](const module_unit& x) { return x.name == u->name; };
    if (u->name.empty() || std::any_of(model.units.begin(), u, same))
      return core::fail(error_kind::bad_input, "own model: wanted a name of its own for each unit, got " +
                                                   quoted(u->name) + " for unit " +
                                                   std::to_string(u - model.units.begin()));
    if (!u->forward) return core::fail(error_kind::bad_input, "own model: unit " + quoted(u->name) + " has no forward");
  }
  return {};
}

}  // namespace

std::string shape_text(const at::Tensor& t) {
  if (!t.defined()) return "nothing";
  std::string out = std::string(c10::toString(t.scalar_type())) + " [";
  for (int64_t d = 0; d < t.dim(); ++d) out += (d > 0 ? ", " : "") + std::to_string(t.size(d));
  return out + "]";
}

core::result<core::model_table> table_of(const module_model& model) {
  if (auto ok = check_units(model); !ok) return core::fail(ok.error());
  core::model_table table;
  for (const auto& u : model.units) table.units.push_back({u.name, {}, {{"forward", {}, u.forward_flops, 0}}});
  std::string wrong;
  const auto add = [&](size_t u, uint32_t q, bool is_new, const std::string& name, const at::Tensor& t) {
    if (!t.is_floating_point() || !t.device().is_cpu() || t.numel() == 0) wrong = name + " is " + shape_text(t);
    if (is_new) {
      core::parameter_info info;
      info.name = name;
      info.shape = t.sizes().vec();
      info.decay = t.dim() > 1;
      info.trainable = t.requires_grad();
      table.parameters.push_back(std::move(info));
    }
    table.units[u].parameters.push_back(q);
    table.units[u].segments[0].parameters.push_back(q);
  };
  const auto numbers = for_each_parameter(model, add);
  if (!wrong.empty())
    return core::fail(error_kind::bad_input,
                      "own model: wanted parameters of floating elements on the CPU, but " + wrong);
  const auto trainable = [](const core::parameter_info& p) { return p.trainable; };
  if (std::none_of(table.parameters.begin(), table.parameters.end(), trainable))
    return core::fail(error_kind::bad_input, "own model: wanted at least one parameter with requires_grad, got none");
  const auto index_of = [&](const at::Tensor& t) { return numbers.at(t.unsafeGetTensorImpl()); };
  for (uint32_t u = 0; u < model.units.size(); ++u)
    for (auto& layer : layers_of(model.units[u], u, index_of)) table.layers.push_back(std::move(layer));
  return table;
}

std::vector<at::Tensor> parameters_of(const module_model& model) {
  std::vector<at::Tensor> out;
  for_each_parameter(model, [&](size_t, uint32_t, bool is_new, const std::string&, const at::Tensor& t) {
    if (is_new) out.push_back(t);
  });
  return out;
}

core::result<void> check_alike(const core::model_table& table, const module_model& model) {
  auto other = table_of(model);
  if (!other) return core::fail(other.error());
  const auto differ = [](const std::string& wanted, const std::string& got) {
    return core::fail(error_kind::bad_input, "wanted " + wanted + " as the first call made, got " + got);
  };
  if (other->units.size() != table.units.size())
    return differ(std::to_string(table.units.size()) + " units", std::to_string(other->units.size()));
  const auto shape = [](const core::parameter_info& p) {
    std::string out = quoted(p.name) + " [";
    for (size_t d = 0; d < p.shape.size(); ++d) out += (d > 0 ? ", " : "") + std::to_string(p.shape[d]);
    return out + "]";
  };
  for (size_t u = 0; u < table.units.size(); ++u) {
    const auto &a = table.units[u], &b = other->units[u];
    if (a.name != b.name) return differ("unit " + quoted(a.name), "unit " + quoted(b.name));
    if (a.parameters.size() != b.parameters.size())
      return differ(std::to_string(a.parameters.size()) + " parameters in unit " + quoted(a.name),
                    std::to_string(b.parameters.size()));
    for (size_t i = 0; i < a.parameters.size(); ++i) {
      const uint32_t number = table.original(a.parameters[i]);  // a shared one may be read through copies
      const auto &p = table.parameters[number], &q = other->parameters[b.parameters[i]];
      if (number != b.parameters[i] || p.name != q.name || p.shape != q.shape) return differ(shape(p), shape(q));
      if (p.trainable != q.trainable)
        return differ(quoted(p.name) + (p.trainable ? " with" : " without") + " requires_grad", "the opposite");
    }
  }
  return {};
}

}  // namespace troupe::models
