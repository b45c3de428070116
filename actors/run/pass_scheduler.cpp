#include "actors/run/pass_scheduler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/run/training_run.hpp"
#include "config/sections/step_counts.hpp"
#include "plan/layout/activation_extents.hpp"

namespace troupe::actors {
namespace {

/// Returns an error unless plan `after` stores states at the same places as the current plan of `memory`; compares only
/// the data on which these places depend.
core::result<void> same_states(const rank_memory& memory, const plan::rank_plan& after) {
  const plan::rank_plan& before = memory.plan();
  const auto& a = *before.layout;
  const auto& b = *after.layout;
  // This process has no swap files of ranks in other processes.
  const uint64_t file_bytes = memory.swap_file() == nullptr ? before.swap_file_bytes : memory.swap_file()->bytes();
  if (a.full_offset == b.full_offset && a.pipeline_of == b.pipeline_of &&
      before.resident_elements[0] == after.resident_elements[0] && after.swap_file_bytes <= file_bytes &&
      plan::swapped_state_bytes(before) == plan::swapped_state_bytes(after))
    return {};
  return core::fail(
      core::error_kind::bad_input,
      "passes between two steps: these passes would move states, which is not possible while a run is open");
}

}  // namespace

void pass_scheduler::schedule_again(bool continues, const std::optional<std::vector<told_schedule>>& told) {
  if (continues && !entries_.empty()) return;
  entries_.clear();
  next_ = 0;
  if (!told) return schedule();
  for (const auto& x : *told) entries_.push_back({x.step, {x.passes, {}, x.is_automatic, {}}});
}

void pass_scheduler::schedule() {
  const auto& plan = run_.term->plan;
  for (const auto& x : plan.config->compile.entries()) entries_.push_back({x.step, job::wish_of(*plan.config, x)});
  if (!plan.compiled) return;
  next_ = 1;
  if (run_.host.hooks.on_passes) run_.host.hooks.on_passes({run_.progress.steps, *plan.compiled});
}

core::result<void> pass_scheduler::change_passes() {
  size_t end = next_;
  while (end < entries_.size() && entries_[end].step <= run_.progress.steps) ++end;
  if (end == next_) return {};
  TROUPE_ASSIGN(auto changed, job::change_steps(run_.term->plan, entries_[end - 1].wish));
  next_ = end;
  return take_steps(std::move(changed));
}

// Makes the plans for the compression that is in effect after the updates so far, if it has changed. Chooses passes
// anew for these plans.
core::result<void> pass_scheduler::enter_phase() {
  run_.term->pruner.turn_masks();
  if (job::is_phase_of(run_.term->plan, run_.progress.applied)) return {};
  job::blueprint entered = run_.term->plan;
  TROUPE_TRY(job::enter_phase(entered, run_.progress.applied));
  // In a job of several processes, the present passes stay in effect, because all processes know them.
  if (next_ > 0 && !run_.others->are_there()) {
    TROUPE_ASSIGN(auto changed, job::change_steps(entered, entries_[next_ - 1].wish));
    TROUPE_TRY(switch_memory(changed.ranks, changed.pools));
    begin_phase(std::move(entered));
    return take_steps(std::move(changed));
  }
  TROUPE_ASSIGN(const auto all, entered.train.all());
  TROUPE_TRY(switch_memory(all, entered.pools));
  begin_phase(std::move(entered));
  run_.term->use_programs(plan::plan_choice::train, all);
  return {};
}

void pass_scheduler::begin_phase(job::blueprint entered) {
  run_.term->plan = std::move(entered);
  run_.term->drop_programs();
}

core::result<void> pass_scheduler::take_steps(job::changed_steps changed) {
  TROUPE_ASSIGN(const bool begins_term, run_.others->take_passes(changed.train));
  if (!begins_term) TROUPE_TRY(use_steps(changed));
  run_.term->plan.compiled = std::move(changed.compiled);
  if (run_.host.hooks.on_passes) run_.host.hooks.on_passes({run_.progress.steps, *run_.term->plan.compiled});
  return {};
}

core::result<void> pass_scheduler::switch_memory(plan::rank_plans to, std::span<const plan::pool_sizes> sizes) {
  const auto& ranks = run_.term->memory.ranks;
  for (uint32_t r = 0; r < ranks.size(); ++r) TROUPE_TRY(same_states(*ranks[r], *to[r]));
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    auto ok = ranks[r]->train_by(to[r], sizes[r]);
    if (ok) continue;
    // restores the earlier plans; the memory pools suffice for them, because pools never shrink
    for (uint32_t done = 0; done < r; ++done)
      (void)ranks[done]->train_by(run_.term->program_of(plan::plan_choice::train, done)->plan,
                                  run_.term->plan.pools[done]);
    return ok;
  }
  return {};
}

core::result<void> pass_scheduler::use_steps(job::changed_steps& changed) {
  TROUPE_TRY(switch_memory(changed.ranks, changed.pools));
  run_.term->plan.options[static_cast<size_t>(plan::plan_choice::train)] = changed.train;
  run_.term->plan.options[static_cast<size_t>(plan::plan_choice::train_saving)] = changed.train_saving;
  run_.term->plan.pools = std::move(changed.pools);
  run_.term->plan.train = std::move(changed.plans);
  run_.term->use_programs(plan::plan_choice::train, changed.ranks);
  run_.term->drop_programs(plan::plan_choice::train_saving);
  return {};
}

bool pass_scheduler::updates_early() const {
  return run_.term->plan.options[static_cast<size_t>(plan::plan_choice::train)].updates.speculate;
}

core::result<void> pass_scheduler::use_updates(bool early) {
  if (run_.term->plan.early.worth == 0 || early == updates_early()) return {};
  TROUPE_ASSIGN(auto changed, job::with_updates(run_.term->plan, early));
  return use_steps(changed);
}

uint32_t pass_scheduler::step_micros() const {
  return run_.term->plan.options[static_cast<size_t>(plan::plan_choice::train)].accumulation;
}

core::result<void> pass_scheduler::use_micros(uint32_t micros) {
  if (micros == step_micros()) return {};
  auto& kept = run_.term->steps_of_count;
  if (kept.size() >= run_term::kept_counts_max) kept.clear();
  const std::pair key(micros, updates_early());
  auto found = kept.find(key);
  if (found == kept.end()) {
    TROUPE_ASSIGN(auto made, job::with_micros(run_.term->plan, micros));
    found = kept.emplace(key, std::move(made)).first;
  }
  job::changed_steps changed = found->second;
  // Pools never shrink: the run may have enlarged them since the plans were made.
  for (size_t r = 0; r < changed.pools.size(); ++r)
    for (size_t k = 0; k < plan::num_pools; ++k)
      changed.pools[r].bytes[k] = std::max(changed.pools[r].bytes[k], run_.term->plan.pools[r].bytes[k]);
  auto ok = use_steps(changed);
  if (!ok) return core::fail(ok.error().in(fmt::format("a step of {} micro-batches", micros)));
  return {};
}

core::result<void> pass_scheduler::change_updates() {
  if (!std::exchange(change_of_updates_, false)) return {};
  const bool early = !updates_early();
  run_.host.lines->put_lines(job::text_of_order(early, run_.progress.steps, undone_, run_.term->plan.early.worth));
  return use_updates(early);
}

void pass_scheduler::note_undone(bool undone) {
  if (const double worth = run_.term->plan.early.worth; worth > 0)
    change_of_updates_ = undone_.note(undone, updates_early(), worth);
}

void pass_scheduler::forget_undone() {
  undone_ = {};
  change_of_updates_ = false;
}

core::result<void> pass_scheduler::change_plans() {
  TROUPE_TRY(change_passes());
  return change_updates();
}

core::result<void> pass_scheduler::compile(std::vector<scheduled_passes> schedule) {
  TROUPE_TRY(run_.sound());
  if (config::has_other_counts(*run_.term->plan.config))
    return core::fail(core::error_kind::bad_input,
                      "compile: cannot be combined with steps of different numbers of micro-batches "
                      "(data.rampup_batch_size, managed_gradient_accumulation: false)");
  const bool shared = run_.others->are_there();
  std::vector<entry> entries;
  std::vector<told_schedule> told;
  for (auto& x : schedule) {
    if (std::ranges::find(x.own, nullptr) != x.own.end())
      return core::fail(core::error_kind::bad_input, "compile: own: wanted passes, got a null pointer");
    if (shared && !x.own.empty())
      return core::fail(core::error_kind::bad_input,
                        fmt::format("compile: own: cannot be combined with cluster.processes, because the other "
                                    "processes do not have the program's own passes; leave it empty, got {}",
                                    x.own.size()));
    told.push_back({x.step, x.passes, x.is_automatic});
    if (!entries.empty() && x.step <= entries.back().step)
      return core::fail(core::error_kind::bad_input,
                        fmt::format("compile: wanted steps that ascend, got {} after {}", x.step, entries.back().step));
    job::pass_wish wish{std::move(x.passes), std::move(x.own), x.is_automatic, {}};
    // Checks the entry now, so that a wrong one is refused at once and not at its step.
    const auto& plan = run_.term->plan;
    TROUPE_TRY(job::change_steps(plan, wish));
    for (const uint64_t from : plan.compression->phases()) {
      job::blueprint later = plan;
      if (from <= run_.progress.applied) continue;
      TROUPE_TRY(job::enter_phase(later, from));
      TROUPE_TRY(job::change_steps(later, wish));
    }
    entries.push_back({x.step, std::move(wish)});
  }
  entries_ = std::move(entries);
  next_ = 0;
  run_.others->tell_schedule(std::move(told));
  return {};
}

}  // namespace troupe::actors
