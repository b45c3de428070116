#include "models/host/model_cut.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/host/module_builder.hpp"
#include "models/host/module_table.hpp"
#include "models/inject/layer_policy.hpp"
#include "models/inject/own_layers.hpp"

namespace troupe::models {
namespace {

core::error refused(const std::string& what) { return {core::error_kind::bad_input, "injection: " + what}; }

}  // namespace

model_cut::model_cut(const module_model& model, uint32_t degree) : policy_(model.policy), degree_(degree) {
  if (policy_ != nullptr) used_.resize(policy_->rules.size());
}

core::result<injection> model_cut::into(const module_unit& unit, uint32_t way) const {
  return injection::make(policy_ != nullptr ? unit.module : nullptr, unit.name,
                         policy_ != nullptr ? *policy_ : injection_policy(), degree_, way);
}

core::result<void> model_cut::add(const module_unit& unit, const injection& made,
                                  const std::function<uint32_t(const at::Tensor&)>& number_of) {
  for (const auto& l : made.layers()) {
    if (l.rule != injected_layer::no_rule) used_[l.rule] = true;
    layers_.push_back(l);
  }
  if (policy_ != nullptr && policy_->own_layers) tell_own_layers(unit, made.layers().size());
  is_cut_.push_back(made.cuts());
  cut_in_.emplace_back();
  for (const auto& [tensor, cut] : made.parameters()) {
    const uint32_t q = number_of(tensor);
    if (cuts_.size() <= q) cuts_.resize(q + 1);
    if (cuts_[q].cuts() && cuts_[q] != cut)
      return core::fail(refused("unit '" + unit.name + "' cuts a shared weight in another way than an earlier unit"));
    cuts_[q] = cut;
    cut_in_.back().push_back(q);
  }
  return {};
}

void model_cut::tell_own_layers(const module_unit& unit, size_t count) {
  const own_layers own(unit.module, unit.calls_own, policy_->blocks.get());
  own_blocks_ += own.blocks();
  for (size_t i = layers_.size() - count; i < layers_.size(); ++i)
    for (const auto& o : own.layers()) {
      if (layers_[i].name != (o.path.empty() ? unit.name : unit.name + "." + o.path)) continue;
      layers_[i].why += o.why.empty() ? "; Troupe's kernel computes it" : "; torch computes it: " + o.why;
    }
}

std::string model_cut::reasons() const {
  std::string out = layers_.empty() ? "" : ":\n" + text_of(layers_);
  if (!out.empty()) out.pop_back();
  return out;
}

core::result<void> model_cut::check_used() const {
  for (size_t i = 0; i < used_.size(); ++i)
    if (!used_[i])
      return core::fail(refused("wanted a layer that '" + policy_->rules[i].pattern +
                                "' matches and that can be cut in this way, found none"));
  if (policy_ == nullptr) return {};
  const layer_policy* blocks = policy_->blocks.get();
  if (blocks != nullptr && !policy_->own_layers)
    return core::fail(refused("policy '" + blocks->name +
                              "' says which blocks Troupe's layers compute; wanted "
                              "own_layers true, got false"));
  if (blocks != nullptr && !blocks->refused.empty())
    return core::fail(refused("policy '" + blocks->name + "': " + blocks->refused));
  if (blocks != nullptr && !blocks->paths.empty() && own_blocks_ == 0)
    return core::fail(refused("policy '" + blocks->name + "' matches no module of any unit"));
  for (const std::string& name : policy_->rows) {
    const auto has_it = [&](const injected_layer& l) {
      return l.weight.style == core::tp_style::row && names_layer(name, l.name);
    };
    if (std::ranges::none_of(layers_, has_it))
      return core::fail(
          refused("wanted a linear layer whose name ends in '" + name + "', a row layer, found none" +
                  (layers_.empty() ? std::string() : " among '" + layers_.front().name + "' and others")));
  }
  return {};
}

core::result<core::tp_plan> model_cut::plan(const core::model_table& table) const {
  TROUPE_TRY(check_used());
  core::tp_plan out{degree_, cuts_};
  out.parameters.resize(table.parameters.size());
  if (degree_ == 1) return out;
  if (policy_ == nullptr)
    return core::fail(core::error_kind::bad_input,
                      fmt::format("parallel.tensor: the host program's model declares no tensor cut (models::inject); "
                                  "declare one or set it to 1, got {}",
                                  degree_));
  if (std::ranges::none_of(is_cut_, std::identity()))
    return core::fail(refused(fmt::format("wanted a layer to cut over {} ranks, found none{}", degree_, reasons())));
  std::vector<const core::unit_info*> cut_unit(out.parameters.size()), whole_unit(out.parameters.size());
  for (size_t u = 0; u < table.units.size(); ++u)
    for (const uint32_t q : table.units[u].parameters) {
      const bool has_part = std::ranges::find(cut_in_[u], q) != cut_in_[u].end();
      (is_cut_[u] && (has_part || !out.parameters[q].cuts()) ? cut_unit : whole_unit)[q] = &table.units[u];
    }
  for (size_t q = 0; q < out.parameters.size(); ++q)
    if (cut_unit[q] != nullptr && whole_unit[q] != nullptr)
      return core::fail(refused("'" + table.parameters[q].name + "' is cut in unit '" + cut_unit[q]->name +
                                "' and whole in unit '" + whole_unit[q]->name +
                                "': cut both, or give each its own weight"));
  return out;
}

module_model inject(module_model model, injection_policy policy) {
  model.policy = std::make_shared<const injection_policy>(std::move(policy));
  return model;
}

core::result<std::vector<injected_layer>> injected_layers(const module_model& given, uint32_t degree) {
  module_model model = given;
  model_cut cut(model, degree);
  module_builder builder;
  table_builder rows(model);
  for (uint32_t u = 0; u < model.units.size(); ++u) {
    TROUPE_TRY(builder.build(model, u));
    TROUPE_TRY(rows.add(model.units[u], u));
    TROUPE_ASSIGN(const auto each, cut.into(model.units[u]));
    TROUPE_TRY(cut.add(model.units[u], each, [&](const at::Tensor& t) { return rows.number_of(t); }));
  }
  TROUPE_TRY(cut.plan(rows.table()));
  return cut.layers();
}

}  // namespace troupe::models
