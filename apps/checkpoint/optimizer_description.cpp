#include "apps/checkpoint/optimizer_description.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "config/load.hpp"
#include "config/sections/parameter_groups.hpp"
#include "job/step/optimizer_groups.hpp"

namespace troupe::apps {
namespace {

using formats::deepspeed_parameter_group;

using rule = core::optimizer_type;

deepspeed_parameter_group group_of(const config::optimizer_section& o, const config::parameter_group* own) {
  deepspeed_parameter_group out{.lr = o.lr, .beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps};
  out.weight_decay = own != nullptr ? own->weight_decay.value_or(o.weight_decay) : o.weight_decay;
  if (own != nullptr) out.lr = own->lr.value_or(o.lr);
  if (o.type == rule::sgd)
    out.more = nlohmann::json{{"momentum", o.momentum}, {"dampening", o.dampening}, {"nesterov", o.nesterov}}.dump();
  if (!o.adam_w_mode) out.more = nlohmann::json{{"decoupled_weight_decay", false}}.dump();
  return out;
}

/// Returns DeepSpeed's `optimizer` section, from which a later conversion of the folder reads the update rule.
nlohmann::json section_of(const config::optimizer_section& o) {
  nlohmann::json params{{"lr", o.lr}, {"weight_decay", o.weight_decay}};
  const bool has_betas = o.type == rule::adam || o.type == rule::adamw || o.type == rule::lamb || o.type == rule::lion;
  if (has_betas) params["betas"] = {o.beta1, o.beta2};
  if ((has_betas && o.type != rule::lion) || o.type == rule::adagrad) params["eps"] = o.eps;
  if (o.type == rule::sgd) params["momentum"] = o.momentum;
  return {{"type", core::name_of(o.type)}, {"params", std::move(params)}};
}

std::string engine_of(const config::job_config& c, uint32_t stage, core::dtype type) {
  nlohmann::json out{{"train_micro_batch_size_per_gpu", c.train_micro_batch_size_per_gpu},
                     {"gradient_accumulation_steps", c.gradient_accumulation_steps},
                     {"gradient_clipping", c.gradient_clipping},
                     {"optimizer", section_of(c.optimizer)},
                     {"zero_optimization", {{"stage", stage}}}};
  if (type == core::dtype::bf16) out["bf16"] = {{"enabled", true}};
  if (type == core::dtype::f16)
    out["fp16"] = {{"enabled", true},
                   {"loss_scale", c.fp16.loss_scale},
                   {"initial_scale_power", c.fp16.initial_scale_power},
                   {"loss_scale_window", c.fp16.loss_scale_window},
                   {"hysteresis", c.fp16.hysteresis},
                   {"consecutive_hysteresis", c.fp16.consecutive_hysteresis},
                   {"min_loss_scale", c.fp16.min_loss_scale}};
  return out.dump();
}

/// Puts the values of optimizer groups that the run's program had set in place of the configuration's.
void take_changes(config::job_config& c, const std::vector<formats::group_change>& changes) {
  auto& rest = c.optimizer;
  for (auto& g : c.parameter_groups) {  // a group without values of its own has those of the file, not the changed ones
    g.lr = g.lr.value_or(rest.lr);
    g.weight_decay = g.weight_decay.value_or(rest.weight_decay);
  }
  for (const auto& x : changes)
    for (size_t g = 0; g <= c.parameter_groups.size(); ++g) {
      if (job::group_name(c, g) != x.group) continue;
      if (g < c.parameter_groups.size()) {
        auto& own = c.parameter_groups[g];
        if (x.learning_rate) own.lr = x.learning_rate;
        if (x.weight_decay) own.weight_decay = x.weight_decay;
      } else {
        rest.lr = x.learning_rate.value_or(rest.lr);
        rest.weight_decay = x.weight_decay.value_or(rest.weight_decay);
      }
    }
}

}  // namespace

core::result<config::job_config> optimizer_configuration(const formats::tensor_source& s,
                                                         const std::filesystem::path& file) {
  const auto unknown = [&] {
    const std::string where = file.empty() ? formats::shown_place(s) : file.string();
    return fail(error_kind::bad_input, fmt::format("'{}' does not say which optimizer wrote it: give a topology or "
                                                   "ds_config.json by --job",
                                                   where));
  };
  if (file.empty() && s.run.config.empty()) return unknown();
  config::load_options options;
  options.read_as = config::reading::either;
  const std::string name = s.run.config.starts_with('{') ? "config.json" : "config.yaml";
  auto c = file.empty() ? config::load_text(s.run.config, name, s.folder, options) : config::load(file, options);
  const auto is_of_optimizer = [](const std::string& key) { return key.starts_with("optimizer"); };
  if (c && std::none_of(c->given.begin(), c->given.end(), is_of_optimizer)) return unknown();
  if (c) {
    if (file.empty() && !s.run.group_changes.empty()) take_changes(c->config, s.run.group_changes);
    return std::move(c->config);
  }
  const std::string where = file.empty() ? fmt::format("the configuration in '{}'", formats::shown_place(s)) : "--job";
  return fail(error_kind::bad_input, fmt::format("{}: {}", where, c.error().front().render()));
}

core::result<optimizer_description> describe_optimizer(const formats::tensor_source& s,
                                                       const std::filesystem::path& file, uint32_t stage,
                                                       core::dtype type) {
  TROUPE_ASSIGN(const auto c, optimizer_configuration(s, file));
  if (c.optimizer.type == rule::host)
    return fail(error_kind::bad_input,
                "optimizer.type: host is a rule of an embedding program's own, whose states DeepSpeed's files have no "
                "place for");
  optimizer_description described{{group_of(c.optimizer, nullptr)}, engine_of(c, stage, type)};
  if (c.parameter_groups.empty()) return described;
  auto& out = described.groups;
  // The groups' patterns are matched against all parameters; frozen parameters are then left out of the groups.
  std::vector<std::string> names;
  std::set<std::string> trained;
  for (const auto& t : s.tensors) {
    if (t.kind == formats::tensor_kind::master) trained.insert(t.name);
    if (t.kind == formats::tensor_kind::master || t.kind == formats::tensor_kind::frozen) names.push_back(t.name);
  }
  TROUPE_ASSIGN(const auto place, config::groups_of(c.parameter_groups, names));
  for (const auto& g : c.parameter_groups) out.push_back(group_of(c.optimizer, &g));
  for (size_t i = 0; i < names.size(); ++i)
    if (trained.contains(names[i]))
      out[place[i] == c.parameter_groups.size() ? 0 : place[i] + 1].parameters.push_back(names[i]);
  std::erase_if(out, [](const auto& g) { return g.parameters.empty(); });
  return described;
}

}  // namespace troupe::apps
