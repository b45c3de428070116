#include "models/host/module_table.hpp"
#include "core/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::models {
namespace {

/// Returns text like "'NAME' [4, 8]".
std::string shape(const std::string& name, at::IntArrayRef sizes) {
  std::string out = core::in_quotes(name) + " [";
  for (size_t d = 0; d < sizes.size(); ++d) out += fmt::format("{}{}", d > 0 ? ", " : "", sizes[d]);
  return out + "]";
}

tl::unexpected<core::error> differ(const std::string& wanted, const std::string& got) {
  return core::fail(error_kind::bad_input, "wanted " + wanted + " as in the first call of the factory, got " + got);
}

/// Compares one instance of a host's model with the table of the first instance: names, shapes and sharing of
/// parameters.
class likeness {
 public:
  explicit likeness(const core::model_table& table) : table_(table), named_by_(table.parameters.size()) {
    for (auto u = static_cast<uint32_t>(table.units.size()); u-- > 0;)
      for (const uint32_t q : table.units[u].parameters) named_by_[table.original(q)] = u;
  }

  core::result<void> check(const module_unit& unit, uint32_t u) {
    const core::unit_info& row = table_.units[u];
    const auto parts = parts_of(unit).parameters;
    if (row.parameters.size() != parts.size())
      return differ(fmt::format("{} parameters in unit {}", row.parameters.size(), core::in_quotes(row.name)),
                    fmt::to_string(parts.size()));
    for (size_t i = 0; i < parts.size(); ++i)
      TROUPE_TRY(check(unit.name + "." + parts[i].name, parts[i].tensor, table_.original(row.parameters[i]), u));
    return {};
  }

 private:
  core::result<void> check(const std::string& name, const at::Tensor& t, uint32_t number, uint32_t u) {
    const core::parameter_info& p = table_.parameters[number];
    const uint32_t mine = number_of_.emplace(t.unsafeGetTensorImpl(), number).first->second;
    const at::Tensor& whose = tensor_of_.emplace(number, t).first->second;
    const bool other_name = named_by_[number] == u && p.name != name;
    if (mine != number || !whose.is_same(t) || other_name || t.sizes() != at::IntArrayRef(p.shape))
      return differ(shape(p.name, p.shape), shape(name, t.sizes()));
    if (p.trainable != t.requires_grad())
      return differ(core::in_quotes(p.name) + (p.trainable ? " with" : " without") + " requires_grad", "the opposite");
    return {};
  }
  const core::model_table& table_;
  std::vector<uint32_t> named_by_;  // [parameter]: index of the first unit that has it, after which it is named
  std::unordered_map<const c10::TensorImpl*, uint32_t> number_of_;
  std::unordered_map<uint32_t, at::Tensor> tensor_of_;
};

}  // namespace

core::result<void> check_units(const module_model& model) {
  if (model.units.empty()) return core::fail(error_kind::bad_input, "own model: wanted at least one unit, got none");
  if (!model.loss) return core::fail(error_kind::bad_input, "own model: wanted a loss, got none");
  for (auto u = model.units.begin(); u != model.units.end(); ++u) {
    const auto same = [&](const module_unit& x) { return x.name == u->name; };
    if (u->name.empty() || std::any_of(model.units.begin(), u, same))
      return core::fail(error_kind::bad_input,
                        fmt::format("own model: wanted a unique name for each unit, got {} for unit {}",
                                    core::in_quotes(u->name), u - model.units.begin()));
    if (!u->forward && u->recipe == nullptr)
      return core::fail(error_kind::bad_input, "own model: unit " + core::in_quotes(u->name) + " has no forward");
  }
  return {};
}

std::string shape_text(const at::Tensor& t) {
  if (!t.defined()) return "nothing";
  std::string out = std::string(c10::toString(t.scalar_type())) + " [";
  for (int64_t d = 0; d < t.dim(); ++d) out += fmt::format("{}{}", d > 0 ? ", " : "", t.size(d));
  return out + "]";
}

std::string shape_text(const named_values& x) {
  std::string out;
  for (const auto& [name, t] : x)
    out += (out.empty() ? "" : ", ") + (x.size() > 1 ? core::in_quotes(name) + " " : std::string()) + shape_text(t);
  return out;
}

table_builder::table_builder(const module_model& model) {
  for (const auto& u : model.units) table_.units.push_back({u.name, {}, {{"forward", {}, u.forward_flops, 0}}});
}

core::result<void> table_builder::add(const module_unit& unit, uint32_t u) {
  for (const auto& [name, t] : parts_of(unit).parameters) {
    const std::string full = unit.name + "." + name;
    if (!t.is_floating_point() || !t.device().is_cpu() || t.numel() == 0)
      return core::fail(error_kind::bad_input, "own model: wanted parameters of floating elements on the CPU, but " +
                                                   full + " is " + shape_text(t));
    const auto next = static_cast<uint32_t>(table_.parameters.size());
    const auto [it, is_new] = known_.emplace(t.unsafeGetTensorImpl(), next);
    if (is_new) {
      core::parameter_info info;
      info.name = full;
      info.shape = t.sizes().vec();
      info.decay = t.dim() > 1;
      info.trainable = t.requires_grad();
      table_.parameters.push_back(std::move(info));
    }
    table_.units[u].parameters.push_back(it->second);
    table_.units[u].segments[0].parameters.push_back(it->second);
  }
  for (auto& layer : layers_of(unit, u, [&](const at::Tensor& t) { return number_of(t); }))
    table_.layers.push_back(std::move(layer));
  return {};
}

uint32_t table_builder::number_of(const at::Tensor& parameter) const {
  return known_.at(parameter.unsafeGetTensorImpl());
}

void table_builder::forget(module_parts parts) {
  for (const auto& p : parts.parameters)
    if (p.tensor.use_count() == 1) known_.erase(p.tensor.unsafeGetTensorImpl());
}

std::vector<at::Tensor> parameters_of(const module_model& model, const core::model_table& table) {
  std::vector<at::Tensor> out(
      static_cast<size_t>(std::ranges::count_if(table.parameters, [](const auto& p) { return !p.is_copy(); })));
  for (size_t u = 0; u < model.units.size(); ++u) {
    const auto parts = parts_of(model.units[u]).parameters;
    for (size_t i = 0; i < parts.size(); ++i) out.at(table.original(table.units[u].parameters.at(i))) = parts[i].tensor;
  }
  return out;
}

core::result<void> check_alike(const core::model_table& table, const module_model& model) {
  TROUPE_TRY(check_units(model));
  if (model.units.size() != table.units.size())
    return differ(fmt::format("{} units", table.units.size()), fmt::to_string(model.units.size()));
  likeness like(table);
  for (uint32_t u = 0; u < table.units.size(); ++u) {
    const module_unit& unit = model.units[u];
    if (table.units[u].name != unit.name)
      return differ("unit " + core::in_quotes(table.units[u].name), "unit " + core::in_quotes(unit.name));
    if (unit.recipe != nullptr && unit.module == nullptr) continue;
    TROUPE_TRY(like.check(unit, u));
  }
  return {};
}

core::result<void> check_alike(const core::model_table& table, const module_unit& unit, uint32_t u) {
  return likeness(table).check(unit, u);
}

}  // namespace troupe::models
