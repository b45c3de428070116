#include "job/step/optimizer_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "config/sections/parameter_groups.hpp"
#include "job/compression/mask_scores.hpp"

namespace troupe::job {
namespace {

core::result<std::vector<size_t>> named_groups(const config::job_config& c, const core::model_table& table) {
  std::vector<std::string> names;
  for (const auto& p : table.parameters)
    if (!p.is_copy() && !p.of_teacher) names.push_back(p.name);
  return config::groups_of(c.parameter_groups, names);
}

using rule = core::optimizer_type;

/// Largest first beta that OneCycle's decay_mom_rate may reach, unless cycle_max_mom is higher: with a beta of 1 or
/// more an update has no bound. config/rules/training_rules.cpp refuses a job that would exceed it; for a host's
/// program, which may continue beyond its number of steps, the beta stops at this value.
constexpr double most_beta1 = 0.999;

/// Muon's two groups of parameters: matrices, which Muon updates, and the rest, which Adam updates. Other rules have
/// one group.
enum class part : uint8_t { rest, matrices };

kernels::optimizer_options options_from(const config::optimizer_section& o, double weight_decay, part of) {
  switch (o.type) {
    case rule::adagrad:
      return kernels::adagrad_options{o.eps, weight_decay, o.lr_decay};
    case rule::lion:
      return kernels::lion_options{o.beta1, o.beta2, weight_decay};
    case rule::sgd:
      return kernels::sgd_options{o.momentum, o.dampening, weight_decay, o.nesterov};
    case rule::lamb:
      return kernels::lamb_options{o.beta1, o.beta2, o.eps, weight_decay, o.max_coeff, o.min_coeff, o.bias_correction};
    case rule::muon:
      if (of == part::matrices) return kernels::muon_options{o.momentum, weight_decay, o.nesterov, o.ns_steps};
      break;
    case rule::host:
      return kernels::host_rule_options{o.rule, weight_decay};
    case rule::adam:
    case rule::adamw:
      break;
  }
  return kernels::adamw_options{o.beta1, o.beta2, o.eps, weight_decay, o.adam_w_mode, o.bias_correction};
}

/// Returns the learning rate for which the schedule states its rates; a group with another rate scales them in
/// proportion. For Muon it is the rate of matrices.
double rate_of_schedule(const config::optimizer_section& o) {
  return o.type == rule::muon ? o.muon_lr.value_or(o.lr) : o.lr;
}

kernels::schedule_options schedule_from(kernels::schedule_options s, double base_lr, double rate, rule optimizer) {
  s.base_lr = base_lr;
  s.rate_ratio = rate > 0 ? base_lr / rate : 1;
  // Adam's betas, for the parameters that Adam updates with Muon, stay constant, as in DeepSpeed.
  s.cycle_momentum = s.cycle_momentum && optimizer != rule::muon;
  return s;
}

/// Refuses a program's own rule where it is missing, where another optimizer is configured, and where its states or its
/// calls cannot be.
core::result<void> check_host_rule(const config::job_config& c) {
  const auto& o = c.optimizer;
  if (o.rule == nullptr && o.type != rule::host) return {};
  if (o.rule == nullptr)
    return core::refused(
        "optimizer.type: host is the rule of a program that embeds Troupe, which gives it as optimizer.rule of its "
        "job_config; choose another optimizer here");
  if (o.type != rule::host)
    return core::refused(fmt::format("optimizer.type: wanted host, because the program gives a rule of its own, got {}",
                                     core::name_of(o.type)));
  const auto refused = [](const char* what) { return core::refused(fmt::format("optimizer.type: host {}", what)); };
  if (c.data_types.reference_fp64) return refused("computes in fp32 and cannot be combined with param_dtype: fp64");
  if (c.device != core::device_kind::cpu)
    return refused("computes on the CPU and cannot be combined with device: cuda");
  if (c.zero_optimization.zenflow.enabled)
    return refused("updates whole runs of elements and cannot be combined with zero_optimization.zenflow");
  return core::check_states(*o.rule);
}

std::string name_of_part(std::string name, bool splits, part of) {
  if (splits) name += of == part::matrices ? ", matrices" : ", others";
  return name;
}

plan::update_need planned_need(const kernels::optimizer_options& options) {
  switch (kernels::need_of(options)) {
    case kernels::optimizer_need::elements:
      break;
    case kernels::optimizer_need::parameter_norms:
      return plan::update_need::parameter_norms;
    case kernels::optimizer_need::whole_matrix:
      return plan::update_need::whole_matrix;
  }
  return plan::update_need::elements;
}

}  // namespace

bool is_muon_matrix(const core::parameter_info& p) {
  static constexpr std::string_view others[] = {"embed", "lm_head", "wte", "wpe"};
  return p.shape.size() >= 2 && !is_score_name(p.name) &&
         std::none_of(std::begin(others), std::end(others),
                      [&](std::string_view word) { return p.name.find(word) != std::string::npos; });
}

std::string group_name(const config::job_config& c, size_t g) {
  if (g >= c.parameter_groups.size()) return "rest";
  return fmt::format("parameter_groups[{}]: {}", g, c.parameter_groups[g].match);
}

core::result<void> freeze(const config::job_config& c, core::model_table& table) {
  TROUPE_ASSIGN(auto groups, named_groups(c, table));
  for (size_t q = 0; q < groups.size(); ++q)
    if (groups[q] < c.parameter_groups.size() && !c.parameter_groups[groups[q]].trainable)
      table.parameters[q].trainable = false;
  return {};
}

core::result<optimizer_groups> make_optimizer_groups(const config::job_config& c, const core::model_table& table) {
  TROUPE_TRY(check_host_rule(c));
  TROUPE_ASSIGN(auto named, named_groups(c, table));
  const auto& o = c.optimizer;
  optimizer_groups out;
  // [index of a named group; the last index stands for parameters without a group][part]: index in out.groups; absent
  // until a parameter needs it.
  constexpr uint32_t absent = 0xFFFFFFFF;
  std::vector<std::array<uint32_t, 2>> places(c.parameter_groups.size() + 1, {absent, absent});
  const bool splits = o.type == rule::muon;
  const auto add = [&](size_t g, part of) {
    uint32_t& place = places[g][static_cast<size_t>(of)];
    if (place != absent) return place;
    const config::parameter_group said =
        g < c.parameter_groups.size() ? c.parameter_groups[g] : config::parameter_group{};
    const double lr = splits ? (of == part::matrices ? o.muon_lr : o.adam_lr).value_or(o.lr) : o.lr;
    out.groups.push_back({options_from(o, said.weight_decay.value_or(o.weight_decay), of),
                          schedule_from(c.scheduler, said.lr.value_or(lr), rate_of_schedule(o), o.type),
                          o.type == rule::adagrad ? o.initial_accumulator_value : 0,
                          name_of_part(group_name(c, g), splits, of)});
    return place = static_cast<uint32_t>(out.groups.size() - 1);
  };
  add(c.parameter_groups.size(), splits ? part::matrices : part::rest);
  for (uint32_t q = 0; q < table.parameters.size(); ++q)
    out.group_of.push_back(
        table.parameters[q].is_copy() ? out.group_of[table.original(q)]
        : table.parameters[q].of_teacher  // a teacher is never updated
            ? 0
            : add(named[q], splits && is_muon_matrix(table.parameters[q]) ? part::matrices : part::rest));
  if (c.ema.given) out.average = c.ema;
  return out;
}

std::vector<plan::parameter_update> updates_of(const optimizer_groups& groups, const core::model_table& whole) {
  std::vector<plan::parameter_update> out;
  for (uint32_t q = 0; q < groups.group_of.size(); ++q) {
    const auto& options = groups.groups[groups.group_of[q]].options;
    out.push_back({own_moments(groups, q) + (groups.average ? 1U : 0U), planned_need(options)});
    if (out.back().need != plan::update_need::whole_matrix) continue;
    out.back().rows = static_cast<uint64_t>(whole.parameters[q].shape.front());
    out.back().columns = whole.parameters[q].numel() / out.back().rows;
  }
  return out;
}

std::vector<std::string_view> moment_names(const optimizer_groups& groups, uint32_t parameter) {
  const auto own = kernels::moment_names(groups.groups[groups.group_of[parameter]].options);
  std::vector<std::string_view> out(own.begin(), own.end());
  if (groups.average) out.push_back(core::average_state);
  return out;
}

std::string moment_name(const optimizer_groups& groups, uint32_t parameter, uint32_t k) {
  return std::string(moment_names(groups, parameter)[k]);
}

uint32_t own_moments(const optimizer_groups& groups, uint32_t parameter) {
  return static_cast<uint32_t>(kernels::moment_names(groups.groups[groups.group_of[parameter]].options).size());
}

std::vector<group_setting> settings_of(const optimizer_groups& groups, uint64_t applied) {
  std::vector<group_setting> out;
  const auto it = static_cast<int64_t>(applied) - 1;
  for (const auto& g : groups.groups) {
    auto beta1 = kernels::momentum(g.schedule, it);
    if (beta1) beta1 = std::min(*beta1, std::max(most_beta1, g.schedule.cycle_max_mom));
    out.push_back({kernels::learning_rate(g.schedule, it), beta1, std::nullopt});
  }
  return out;
}

kernels::optimizer_options with_setting(const kernels::optimizer_options& options, const group_setting& setting) {
  auto out = setting.beta1 ? kernels::with_betas(options, *setting.beta1, kernels::one_cycle_beta2) : options;
  return setting.weight_decay ? kernels::with_weight_decay(out, *setting.weight_decay) : out;
}

}  // namespace troupe::job
