#include "actors/run/pass_scheduler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "actors/run/training_run.hpp"
#include "config/sections/step_counts.hpp"
#include "plan/layout/activation_extents.hpp"
#include "plan/memory_places.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::actors {
namespace {

/// Returns a rank's profile of the measured steps: its shortest step, and the measured times of instructions.
plan::rank_vote vote_of(const telemetry::instruction_times& times, const plan::rank_plan& p,
                        const plan::cost_model& costs) {
  plan::measured_prices mine(costs);
  for (const auto& x : p.instructions) mine.add(p, x, times.seconds(p, x));
  return {.rank = p.rank, .step_s = times.least_step_s(), .prices = mine.sums()};
}

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

/// True if the pools through which swap files are read and written, of sizes `there`, are large enough for `wanted`:
/// they cannot grow between steps.
bool fit_windows(std::span<const plan::pool_sizes> wanted, std::span<const plan::pool_sizes> there,
                 plan::tier activations) {
  const auto grows = [&](size_t r, plan::pool k) { return wanted[r].of(k) > there[r].of(k); };
  for (size_t r = 0; r < wanted.size(); ++r) {
    if (activations == plan::tier::nvme && grows(r, plan::pool::activations)) return false;
    for (const auto k : {plan::pool::states, plan::pool::shards, plan::pool::reduced})
      if (grows(r, k)) return false;
  }
  return true;
}

/// Returns the bytes of the memory that holds activations: the device's, if the device has memory of its own, else all.
uint64_t bytes_beside_activations(const plan::memory_table& m, const plan::tier_options& tiers) {
  return tiers.apart ? plan::device_bytes(m, tiers) : m.total();
}

/// Adds to `out`, the measurements by which passes are chosen, the limits of memory: the least memory of all ranks, and
/// by how much the highest peak exceeds the plans `ran`.
job::measured_run within(const plan::joined_votes& votes, plan::rank_plans ran, job::measured_run out) {
  uint64_t planned = 0;
  for (const auto& p : ran) planned = std::max(planned, bytes_beside_activations(p->memory, p->options().tiers));
  out.memory_bytes = votes.memory_bytes;
  out.over_bytes = votes.peak_bytes - std::min(votes.peak_bytes, planned);
  return out;
}

}  // namespace

// A due entry without a trial replaces all entries before it. The next entry with a trial applies only once steps with
// the present plan have been measured, to compare with; skipped steps are not measured.
size_t pass_scheduler::due(uint64_t steps) const {
  size_t end = next_;
  for (size_t i = next_; i < entries_.size() && entries_[i].step <= steps; ++i)
    if (entries_[i].tried_steps == 0) end = i + 1;
  if (end > next_ || next_ == entries_.size() || entries_[next_].step > steps) return end;
  const bool is_chosen = entries_[next_].wish.is_automatic || !entries_[next_].wish.passes.empty();
  const bool comparable = is_measured() || (step_s_ > 0 && !is_chosen);
  return before_ || !comparable ? next_ : next_ + 1;
}

void pass_scheduler::forget_measurements() {
  times_ = {};
  peak_bytes_.clear();
  step_s_ = 0;
}

void pass_scheduler::schedule_again(bool continues, const std::optional<std::vector<told_schedule>>& told) {
  if (continues && !entries_.empty()) return;
  entries_.clear();
  next_ = 0;
  before_.reset();
  forget_measurements();
  if (!told) return schedule();
  for (const auto& x : *told) entries_.push_back({x.step, {x.passes, {}, x.is_automatic, {}}, x.tried_steps});
}

void pass_scheduler::schedule() {
  const auto& compile = run_.term->plan.config->compile;
  for (const auto& x : compile.entries()) {
    // If the configuration has no schedule, its passes are chosen after `profile_steps` measured steps, counted from
    // the step with which the run begins.
    const bool is_measured = compile.schedule.empty() && x.step > 0;
    const uint64_t from = is_measured ? run_.progress.steps : 0;
    entries_.push_back(
        {from + x.step, job::wish_of(*run_.term->plan.config, x), is_measured ? compile.profile_steps : 0});
  }
  if (!run_.term->plan.compiled) return;
  next_ = 1;
  // Also tries the plan without passes, because the cost model ignores how much instructions that run at the same time
  // slow each other down.
  const bool is_plain = run_.term->plan.compiled->chosen.options == run_.term->plan.compiled->base.options;
  if (compile.schedule.empty() && run_.term->plan.compiled->base.fits && !is_plain)
    entries_.push_back({entries_.back().step + compile.profile_steps, {}, compile.profile_steps});
  if (run_.host.hooks.on_passes) run_.host.hooks.on_passes({run_.progress.steps, false, *run_.term->plan.compiled, {}});
}

core::result<void> pass_scheduler::change_passes() {
  TROUPE_TRY(end_trial());
  const size_t end = due(run_.progress.steps);
  if (end == next_) return {};
  const auto& entry = entries_[end - 1];
  job::measured_run measured;
  double step_s = step_s_;
  if (is_measured()) {
    const auto votes = vote();
    if (!votes.failure.empty() && entry.tried_steps > 0) {
      next_ = end;
      return {};
    }
    if (votes.prices != nullptr) {
      step_s = votes.step_s;
      measured.price = [prices = votes.prices](const plan::rank_plan& p, const plan::instruction& x) {
        return prices->seconds(p, x);
      };
    }
    if (entry.tried_steps > 0) measured = within(votes, run_.term->plan.train.plans(), std::move(measured));
  }
  const bool by_measured = measured.price != nullptr;
  auto changed = job::change_steps(run_.term->plan, entry.wish, measured);
  if (!changed && entry.tried_steps > 0 && changed.error().kind == core::error_kind::bad_input) {
    run_.host.warnings->put("passes: the measured times do not change the plan: " + changed.error().text);
    next_ = end;
    return {};
  }
  if (!changed) return core::fail(changed.error());
  next_ = end;
  const auto& now = run_.term->plan.options[static_cast<size_t>(plan::plan_choice::train)];
  if (entry.tried_steps > 0 && changed->train == now) {
    if (run_.host.hooks.on_passes && by_measured)
      run_.host.hooks.on_passes({run_.progress.steps, true, std::move(changed->compiled), {}});
    return {};
  }
  if (entry.tried_steps > 0 && !fit_windows(changed->pools, run_.term->plan.pools, now.tiers.activations)) return {};
  std::optional<earlier> before;
  if (entry.tried_steps > 0) {
    before = {run_.progress.steps + entry.tried_steps,
              step_s,
              {now,
               run_.term->plan.options[static_cast<size_t>(plan::plan_choice::train_saving)],
               run_.term->plan.train,
               {},
               {},
               run_.term->plan.compiled.value_or(plan::compiled_step{})}};
    for (uint32_t r = 0; r < run_.term->ranks(); ++r)
      before->steps.ranks.push_back(run_.term->program_of(plan::plan_choice::train, r)->plan);
  }
  TROUPE_TRY(take_steps(std::move(*changed), {run_.progress.steps, by_measured, {}, {}}));
  before_ = std::move(before);
  return {};
}

// Makes the plans for the compression that is in effect after the updates so far, if it has changed. Chooses passes
// anew for these plans; a trial ends without a result, because its comparison is no longer valid.
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
    return take_steps(std::move(changed), {run_.progress.steps, false, {}, {}});
  }
  TROUPE_ASSIGN(const auto all, entered.train.all());
  TROUPE_TRY(switch_memory(all, entered.pools));
  begin_phase(std::move(entered));
  run_.term->use_programs(plan::plan_choice::train, all);
  times_ = {};
  peak_bytes_.clear();
  return {};
}

void pass_scheduler::begin_phase(job::blueprint entered) {
  run_.term->plan = std::move(entered);
  run_.term->drop_programs();
  before_.reset();
}

core::result<void> pass_scheduler::end_trial() {
  if (!before_ || run_.progress.steps < before_->until || !is_measured()) return {};
  const auto votes = vote();
  auto before = *std::exchange(before_, std::nullopt);
  // If a rank's profile is missing, the speed of the trial is unknown, and the earlier plan returns.
  const double step_s = votes.failure.empty() ? votes.step_s : std::numeric_limits<double>::infinity();
  if (step_s <= before.step_s) return {};
  before.steps.pools = run_.term->plan.pools;
  auto done = take_steps(std::move(before.steps), {run_.progress.steps, true, {}, {{before.step_s, step_s}}});
  step_s_ = before.step_s;
  return done;
}

core::result<void> pass_scheduler::take_steps(job::changed_steps changed, passes_report report) {
  forget_measurements();
  TROUPE_ASSIGN(const bool begins_term, run_.others->take_passes(changed.train));
  if (!begins_term) TROUPE_TRY(use_steps(changed));
  report.compiled = changed.compiled;
  run_.term->plan.compiled = std::move(changed.compiled);
  if (run_.host.hooks.on_passes) run_.host.hooks.on_passes(report);
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
  TROUPE_TRY(use_steps(changed));
  forget_measurements();
  return {};
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
  forget_measurements();
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

void pass_scheduler::begin_measuring() {
  if (!is_measuring()) return;
  for (uint32_t r = 0; r < run_.term->memory.ranks.size(); ++r)
    (void)run_.term->memory.ledger->take_peak(run_.term->memory.ledger->owner(r));
}

void pass_scheduler::measure(std::span<const telemetry::rank_spans> step) {
  if (!is_measuring()) return;
  times_.add(step);
  peak_bytes_.resize(run_.term->memory.ranks.size());
  for (uint32_t r = 0; r < run_.term->memory.ranks.size(); ++r) {
    auto& peak = peak_bytes_[r];
    peak =
        std::max(peak, run_.others->is_here(r) ? run_.term->memory.ledger->take_peak(run_.term->memory.ledger->owner(r))
                                               : run_.others->peak_bytes(r));
  }
}

plan::joined_votes pass_scheduler::vote() {
  const auto ranks = static_cast<uint32_t>(run_.term->memory.ranks.size());
  const auto room = storage::free_memory();
  std::vector<plan::rank_vote> votes;
  for (uint32_t r = 0; r < ranks; ++r) {
    votes.push_back(vote_of(times_, *times_.plans()[r], run_.term->plan.costs));
    const auto& p = run_.term->memory.ranks[r]->plan();
    auto has = p.memory;
    has.activations = peak_bytes_[r];
    votes.back().peak_bytes = bytes_beside_activations(has, p.options().tiers);
    if (p.options().tiers.apart)
      votes.back().memory_bytes = run_.term->memory.room->allowed_bytes() / ranks;
    else if (room)
      votes.back().memory_bytes = has.total() + room->bytes / ranks;
  }
  if (run_.host.hooks.on_votes) run_.host.hooks.on_votes(votes);
  auto out = plan::join(votes, ranks, run_.term->plan.costs);
  if (!out.failure.empty()) run_.host.warnings->put("passes: no choice by measured times: " + out.failure);
  return out;
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
    told.push_back({x.step, x.passes, x.is_automatic, x.tried_steps});
    if (!entries.empty() && x.step <= entries.back().step)
      return core::fail(core::error_kind::bad_input,
                        fmt::format("compile: wanted steps that ascend, got {} after {}", x.step, entries.back().step));
    job::pass_wish wish{std::move(x.passes), std::move(x.own), x.is_automatic, {}};
    // Checks the entry now, so that a wrong one is refused at once and not at its step, as far as that does not depend
    // on measurements.
    const auto& plan = run_.term->plan;
    TROUPE_TRY(job::change_steps(plan, wish));
    for (const uint64_t from : plan.compression->phases()) {
      job::blueprint later = plan;
      if (from <= run_.progress.applied) continue;
      TROUPE_TRY(job::enter_phase(later, from));
      TROUPE_TRY(job::change_steps(later, wish));
    }
    entries.push_back({x.step, std::move(wish), x.tried_steps});
  }
  // `times_` stay valid, because steps still run with the plans that were measured
  entries_ = std::move(entries);
  next_ = 0;
  before_.reset();
  peak_bytes_.clear();
  run_.others->tell_schedule(std::move(told));
  return {};
}

}  // namespace troupe::actors
