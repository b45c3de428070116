#include "actors/run/rate_keeper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "actors/run/training_run.hpp"
#include "core/training_types.hpp"
#include "job/step/optimizer_groups.hpp"

namespace troupe::actors {
namespace {

constexpr const char* hook_name = "session_hooks::learning_rate";

bool is_rate(double x) { return std::isfinite(x) && x >= 0; }

/// Returns the rates of all groups that the host program's schedule has chosen, checked.
core::result<std::vector<double>> rates_of(const rate_choice& chosen, const job::optimizer_groups& optimizer,
                                           uint64_t step) {
  std::vector<double> out;
  if (const auto* factor = std::get_if<double>(&chosen)) {
    if (!is_rate(*factor))
      return core::refused(fmt::format("{}: wanted a factor of at least 0 for step {}, got {}; the step was not done",
                                       hook_name, step, *factor));
    for (const auto& g : optimizer.groups) out.push_back(g.schedule.base_lr * *factor);
  } else {
    out = std::get<std::vector<double>>(chosen);
    if (out.size() != optimizer.groups.size())
      return core::refused(
          fmt::format("{}: wanted {} rates for step {}, one for each group, got {}; the step was not "
                      "done",
                      hook_name, optimizer.groups.size(), step, out.size()));
  }
  for (size_t g = 0; g < out.size(); ++g)
    if (!is_rate(out[g]))
      return core::refused(
          fmt::format("{}: wanted a rate of at least 0 for group '{}' in step {}, got {}; the step was "
                      "not done",
                      hook_name, optimizer.groups[g].name, step, out[g]));
  return out;
}

}  // namespace

core::result<void> check_host_schedule(const session_hooks& hooks, const config::job_config& config) {
  if (!hooks.learning_rate) return {};
  const auto type = config.scheduler.type;
  if (type == core::schedule_type::constant) return {};
  return core::refused(fmt::format("{}: cannot be combined with scheduler.type {}; remove one of the two", hook_name,
                                   core::name_of(type)));
}

std::vector<job::group_setting> rate_keeper::settings() const {
  const auto& optimizer = *run_.term->plan.optimizer;
  auto out = job::settings_of(optimizer, run_.progress.scheduled);
  for (size_t g = 0; g < asked_.size(); ++g) out[g].lr = asked_[g];
  for (const auto& change : run_.progress.group_changes)
    for (size_t g = 0; g < out.size(); ++g) {
      if (optimizer.groups[g].name != change.group) continue;
      out[g].lr = change.learning_rate.value_or(out[g].lr);
      if (change.weight_decay) out[g].weight_decay = change.weight_decay;
    }
  return out;
}

std::vector<group_values> rate_keeper::groups() const {
  const auto& optimizer = *run_.term->plan.optimizer;
  const auto now = settings();
  std::vector<group_values> out;
  for (size_t g = 0; g < now.size(); ++g) {
    const auto& group = optimizer.groups[g];
    out.push_back({group.name, now[g].lr, now[g].weight_decay.value_or(kernels::weight_decay_of(group.options)), 0});
  }
  const auto& all = run_.term->plan.tensor.whole->parameters;
  for (size_t q = 0; q < all.size(); ++q)
    if (all[q].trainable && !all[q].is_copy() && !all[q].of_teacher)
      out[optimizer.group_of[q]].parameters += all[q].numel();
  return out;
}

core::result<void> rate_keeper::set_learning_rate(uint32_t group, double rate) {
  if (run_.host.hooks.learning_rate)
    return core::refused(
        fmt::format("set_learning_rate: cannot be combined with {}, which decides every rate", hook_name));
  return set("set_learning_rate", group, value::learning_rate, rate);
}

core::result<void> rate_keeper::set_weight_decay(uint32_t group, double decay) {
  return set("set_weight_decay", group, value::weight_decay, decay);
}

core::result<void> rate_keeper::set(const char* call, uint32_t group, value what, double to) {
  TROUPE_TRY(run_.sound());
  const auto& groups = run_.term->plan.optimizer->groups;
  if (!run_.others->leads())
    return core::refused(
        fmt::format("{}: this process does not lead the job; the leading process calls it for all "
                    "processes",
                    call));
  if (group >= groups.size())
    return core::refused(
        fmt::format("{}: wanted the number of one of the {} groups, from 0, got {}", call, groups.size(), group));
  if (!is_rate(to))
    return core::refused(
        fmt::format("{}: wanted a number of at least 0 for group '{}', got {}", call, groups[group].name, to));
  const change made{run_.progress.steps, group, what, to};
  apply(made);
  if (run_.others->are_there()) keep(made);
  return {};
}

void rate_keeper::keep(const change& made) {
  std::erase_if(changes_,
                [&](const change& c) { return c.step == made.step && c.group == made.group && c.what == made.what; });
  changes_.push_back(made);
  if (changes_.size() <= rate_changes_max) return;
  last_dropped_ = changes_.front().step;
  changes_.pop_front();
}

void rate_keeper::apply(const change& c) {
  const auto& name = run_.term->plan.optimizer->groups[c.group].name;
  auto& all = run_.progress.group_changes;
  auto at = std::ranges::find(all, name, &formats::group_change::group);
  if (at == all.end()) at = all.insert(all.end(), formats::group_change{name, std::nullopt, std::nullopt});
  (c.what == value::learning_rate ? at->learning_rate : at->weight_decay) = c.to;
}

core::result<void> rate_keeper::prepare() {
  const uint64_t step = run_.progress.steps;
  for (const change& c : changes_)
    if (c.step == step) apply(c);
  const auto& hook = run_.host.hooks.learning_rate;
  if (!hook) return {};
  rate_choice chosen;
  const auto threw = [step](const std::string& what) {
    return core::refused(fmt::format("{}: threw {} for step {}; the step was not done", hook_name, what, step));
  };
  try {
    chosen = hook(run_.progress.scheduled);
  } catch (const std::exception& e) {
    return threw(fmt::format("an exception ({})", e.what()));
  } catch (...) {
    return threw("an exception of an unknown type");
  }
  TROUPE_ASSIGN(auto rates, rates_of(chosen, *run_.term->plan.optimizer, step));
  asked_ = std::move(rates);
  return {};
}

void rate_keeper::note_update() {
  const auto& groups = run_.term->plan.optimizer->groups;
  auto& all = run_.progress.group_changes;
  for (auto& change : all) {
    const auto group = std::ranges::find(groups, change.group, &job::optimizer_group::name);
    if (group != groups.end() && group->schedule.type != core::schedule_type::constant) change.learning_rate.reset();
  }
  std::erase_if(all, [](const auto& x) { return !x.learning_rate && !x.weight_decay; });
}

void rate_keeper::take_over(const std::string& folder) {
  asked_.clear();
  const auto& groups = run_.term->plan.optimizer->groups;
  auto& all = run_.progress.group_changes;
  for (auto& change : all) {
    if (std::ranges::find(groups, change.group, &job::optimizer_group::name) == groups.end()) {
      run_.host.say(
          fmt::format("'{}': its program had set values of the optimizer group '{}', which this run does not "
                      "have: they are left out",
                      folder, change.group));
      change.learning_rate.reset();
      change.weight_decay.reset();
      continue;
    }
    if (change.learning_rate && run_.host.hooks.learning_rate) {
      run_.host.say(
          fmt::format("'{}': its program had set the learning rate of group '{}', which {} decides in this "
                      "run: it is left out",
                      folder, change.group, hook_name));
      change.learning_rate.reset();
    }
    const auto said = [&](const char* what, double value) {
      run_.host.say(fmt::format("'{}': group '{}' continues with the {} {}, which its program had set", folder,
                                change.group, what, value));
    };
    if (change.learning_rate) said("learning rate", *change.learning_rate);
    if (change.weight_decay) said("weight decay", *change.weight_decay);
  }
  std::erase_if(all, [](const auto& x) { return !x.learning_rate && !x.weight_decay; });
}

}  // namespace troupe::actors
