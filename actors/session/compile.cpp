// Changes plans between steps: when training's plans change, through passes or because a technique of compression
// begins, and to which plans. Owns the switch; job/compile.hpp chooses, the checker proves.
#include <algorithm>
#include <limits>
#include <utility>

#include "actors/session/parts.hpp"
#include "job/changed_steps.hpp"
#include "job/early_updates.hpp"
#include "plan/layout/activation_extents.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::actors {
namespace {

/// Returns a rank's own vote on the measured steps.
plan::rank_vote vote_of(const telemetry::instruction_times& times, const plan::rank_plan& p,
                        const plan::cost_model& costs) {
  plan::measured_prices mine(costs);
  for (const auto& x : p.instructions) mine.add(p, x, times.seconds(p, x));
  return {.rank = p.rank, .step_s = times.least_step_s(), .prices = mine.sums()};
}

/// Returns an error if the places of states differ between two plans; data that do not change states are ignored.
core::result<void> same_states(const rank_memory& memory, const plan::rank_plan& after) {
  const plan::rank_plan& before = memory.plan();
  const auto& a = *before.layout;
  const auto& b = *after.layout;
  // The files of other processes' ranks are not open here.
  const uint64_t file_bytes = memory.swap_file() == nullptr ? before.swap_file_bytes : memory.swap_file()->bytes();
  if (a.full_offset == b.full_offset && a.pipeline_of == b.pipeline_of &&
      before.resident_elements[0] == after.resident_elements[0] && after.swap_file_bytes <= file_bytes &&
      plan::swapped_state_bytes(before) == plan::swapped_state_bytes(after))
    return {};
  return core::fail(core::error_kind::bad_input, "passes between two steps: wanted states where they are, got others");
}

/// True if the windows onto files are large enough: they cannot grow between steps.
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

/// Sets the limits of a choice by measured times: the least memory of all ranks, and the highest peak.
job::measured_run within(const plan::joined_votes& votes, plan::rank_plans ran, job::measured_run out) {
  uint64_t planned = 0;
  for (const auto& p : ran) planned = std::max(planned, p->memory.total());
  out.memory_bytes = votes.memory_bytes;
  out.over_bytes = votes.peak_bytes - std::min(votes.peak_bytes, planned);
  return out;
}

}  // namespace

// An entry that stays replaces all entries before it. An entry on trial begins once there are measured steps to compare
// it with; skipped steps are not measured.
size_t pass_schedule::due(uint64_t steps) const {
  size_t end = next;
  for (size_t i = next; i < entries.size() && entries[i].step <= steps; ++i)
    if (entries[i].tried_steps == 0) end = i + 1;
  if (end > next || next == entries.size() || entries[next].step > steps) return end;
  const bool is_chosen = entries[next].wish.is_automatic || !entries[next].wish.passes.empty();
  const bool comparable = is_measured() || (step_s > 0 && !is_chosen);
  return before || !comparable ? next : next + 1;
}

void session::parts::schedule_passes_again() {
  auto& x = processes;
  if (x.passes && !passes.entries.empty()) return;
  passes = {};
  if (!x.schedule) return schedule_passes();
  for (const auto& entry : *x.schedule)
    passes.entries.push_back({entry.step, {entry.passes, {}, entry.is_automatic, {}}, entry.tried_steps});
}

void session::parts::schedule_passes() {
  const auto& compile = plan.config->compile;
  for (const auto& x : compile.entries()) {
    // Without a schedule of its own a run measures its first steps, from the step that it begins with.
    const bool is_measured = compile.schedule.empty() && x.step > 0;
    const uint64_t from = is_measured ? progress.steps : 0;
    passes.entries.push_back({from + x.step, job::wish_of(*plan.config, x), is_measured ? compile.profile_steps : 0});
  }
  if (!plan.compiled) return;
  passes.next = 1;
  // The plan without passes is tried as well, because the cost model does not know how much instructions slow each
  // other down.
  const bool is_plain = plan.compiled->chosen.options == plan.compiled->base.options;
  if (compile.schedule.empty() && plan.compiled->base.fits && !is_plain)
    passes.entries.push_back({passes.entries.back().step + compile.profile_steps, {}, compile.profile_steps});
  if (host.hooks.on_passes) host.hooks.on_passes({progress.steps, false, *plan.compiled, {}});
}

core::result<void> session::parts::change_passes() {
  TROUPE_TRY(end_trial());
  const size_t end = passes.due(progress.steps);
  if (end == passes.next) return {};
  const auto& entry = passes.entries[end - 1];
  job::measured_run measured;
  double step_s = passes.step_s;
  if (passes.is_measured()) {
    const auto votes = vote();
    if (!votes.failure.empty() && entry.tried_steps > 0) {
      passes.next = end;
      return {};
    }
    if (votes.prices != nullptr) {
      step_s = votes.step_s;
      measured.price = [prices = votes.prices](const plan::rank_plan& p, const plan::instruction& x) {
        return prices->seconds(p, x);
      };
    }
    if (entry.tried_steps > 0) measured = within(votes, plan.train.plans(), std::move(measured));
  }
  const bool by_measured = measured.price != nullptr;
  auto changed = job::change_steps(plan, entry.wish, measured);
  if (!changed && entry.tried_steps > 0 && changed.error().kind == core::error_kind::bad_input) {
    host.warnings->put("passes: what was measured leaves the plan as it is: " + changed.error().text);
    passes.next = end;
    return {};
  }
  if (!changed) return core::fail(changed.error());
  passes.next = end;
  const auto& now = plan.options[static_cast<size_t>(plan::plan_choice::train)];
  if (entry.tried_steps > 0 && changed->train == now) {
    if (host.hooks.on_passes && by_measured)
      host.hooks.on_passes({progress.steps, true, std::move(changed->compiled), {}});
    return {};
  }
  if (entry.tried_steps > 0 && !fit_windows(changed->pools, plan.pools, now.tiers.activations)) return {};
  std::optional<pass_schedule::earlier> before;
  if (entry.tried_steps > 0) {
    before = {progress.steps + entry.tried_steps,
              step_s,
              {now,
               plan.options[static_cast<size_t>(plan::plan_choice::train_saving)],
               plan.train,
               {},
               {},
               plan.compiled.value_or(plan::compiled_step{})}};
    for (uint32_t r = 0; r < programs.size(); ++r)
      before->steps.ranks.push_back(program_of(plan::plan_choice::train, r)->plan);
  }
  TROUPE_TRY(take_steps(std::move(*changed), {progress.steps, by_measured, {}, {}}));
  passes.before = std::move(before);
  return {};
}

// Enters the phase of compression after the updates so far. Chooses passes anew for the changed step; a trial ends
// without a result, because its comparison is no longer valid.
core::result<void> session::parts::enter_phase() {
  turn_masks();
  if (job::is_phase_of(plan, progress.applied)) return {};
  TROUPE_TRY(job::enter_phase(plan, progress.applied));
  for (const auto& rank : programs) *rank = {};  // the plans of other kinds are written at their next use
  passes.before.reset();
  // Processes keep the passes that the term began with, because all of them know those.
  if (passes.next > 0 && !processes.is_on()) {
    TROUPE_ASSIGN(auto changed, job::change_steps(plan, passes.entries[passes.next - 1].wish));
    return take_steps(std::move(changed), {progress.steps, false, {}, {}});
  }
  TROUPE_ASSIGN(const auto all, plan.train.all());
  for (uint32_t r = 0; r < memory.ranks.size(); ++r) {
    TROUPE_TRY(same_states(*memory.ranks[r], *all[r]));
    TROUPE_TRY(memory.ranks[r]->train_by(all[r], plan.pools[r]));
  }
  use_programs(plan::plan_choice::train, all);
  passes.times = {};
  passes.peak_bytes.clear();
  return {};
}

core::result<void> session::parts::end_trial() {
  if (!passes.before || progress.steps < passes.before->until || !passes.is_measured()) return {};
  const auto votes = vote();
  auto before = *std::exchange(passes.before, std::nullopt);
  // Without the profile of every rank the trial's speed is not known, and the earlier plan returns.
  const double step_s = votes.failure.empty() ? votes.step_s : std::numeric_limits<double>::infinity();
  if (step_s <= before.step_s) return {};
  before.steps.pools = plan.pools;
  auto done = take_steps(std::move(before.steps), {progress.steps, true, {}, {{before.step_s, step_s}}});
  passes.step_s = before.step_s;
  return done;
}

core::result<void> session::parts::take_steps(job::changed_steps changed, passes_report report) {
  if (processes.is_on()) {
    // The changed plan needs other shared memory, so a new term begins with it.
    const auto& o = changed.train;
    processes.passes = {o.recompute,
                        o.kept_units,
                        o.light_before,
                        o.overlap_exchanges,
                        o.exchange_pieces,
                        o.gathering,
                        o.gradients.reduce_bucket,
                        o.gradients.buckets_follow_units,
                        o.tiers.activation_units};
    processes.passes_data = plan.config->parallel.data;
    passes.times = {};
    passes.peak_bytes.clear();
    passes.step_s = 0;
    TROUPE_TRY(end_term_for(0, "other passes"));
    report.compiled = changed.compiled;
    plan.compiled = std::move(changed.compiled);
    if (host.hooks.on_passes) host.hooks.on_passes(report);
    return {};
  }
  TROUPE_TRY(use_steps(changed));
  report.compiled = changed.compiled;
  plan.compiled = std::move(changed.compiled);
  if (host.hooks.on_passes) host.hooks.on_passes(report);
  return {};
}

core::result<void> session::parts::use_steps(job::changed_steps& changed) {
  for (uint32_t r = 0; r < memory.ranks.size(); ++r) TROUPE_TRY(same_states(*memory.ranks[r], *changed.ranks[r]));
  passes.times = {};
  passes.peak_bytes.clear();
  passes.step_s = 0;
  for (uint32_t r = 0; r < memory.ranks.size(); ++r)
    TROUPE_TRY(memory.ranks[r]->train_by(changed.ranks[r], changed.pools[r]));
  plan.options[static_cast<size_t>(plan::plan_choice::train)] = changed.train;
  plan.options[static_cast<size_t>(plan::plan_choice::train_saving)] = changed.train_saving;
  plan.pools = std::move(changed.pools);
  plan.train = std::move(changed.plans);
  use_programs(plan::plan_choice::train, changed.ranks);
  for (const auto& rank : programs) (*rank)[static_cast<size_t>(plan::plan_choice::train_saving)] = nullptr;
  return {};
}

bool session::parts::updates_early() const {
  return plan.options[static_cast<size_t>(plan::plan_choice::train)].updates.speculate;
}

core::result<void> session::parts::use_updates(bool early) {
  if (plan.early.worth == 0 || early == updates_early()) return {};
  TROUPE_ASSIGN(auto changed, job::with_updates(plan, early));
  return use_steps(changed);
}

core::result<void> session::parts::change_updates() {
  if (!std::exchange(change_of_updates, false)) return {};
  const bool early = !updates_early();
  recording.lines->put_lines(job::text_of_order(early, progress.steps, undone, plan.early.worth));
  return use_updates(early);
}

void session::parts::begin_measuring() {
  if (!passes.is_measuring()) return;
  for (uint32_t r = 0; r < memory.ranks.size(); ++r) (void)memory.ledger->take_peak(memory.ledger->owner(r));
}

void session::parts::measure(std::span<const telemetry::rank_spans> step) {
  if (!passes.is_measuring()) return;
  passes.times.add(step);
  passes.peak_bytes.resize(memory.ranks.size());
  for (uint32_t r = 0; r < memory.ranks.size(); ++r) {
    auto& peak = passes.peak_bytes[r];
    peak = std::max(peak,
                    processes.is_here(r) ? memory.ledger->take_peak(memory.ledger->owner(r)) : processes.peak_bytes[r]);
  }
}

plan::joined_votes session::parts::vote() {
  const auto ranks = static_cast<uint32_t>(memory.ranks.size());
  const auto room = storage::free_memory();
  std::vector<plan::rank_vote> votes;
  for (uint32_t r = 0; r < ranks; ++r) {
    votes.push_back(vote_of(passes.times, *passes.times.plans()[r], plan.costs));
    auto has = memory.ranks[r]->plan().memory;
    has.activations = passes.peak_bytes[r];
    votes.back().peak_bytes = has.total();
    if (room) votes.back().memory_bytes = has.total() + room->bytes / ranks;
  }
  if (host.hooks.on_votes) host.hooks.on_votes(votes);
  auto out = plan::join(votes, ranks, plan.costs);
  if (!out.failure.empty()) host.warnings->put("passes: no choice by measured times: " + out.failure);
  return out;
}

core::result<void> session::compile(std::vector<scheduled_passes> schedule) {
  auto& p = *parts_;
  TROUPE_TRY(p.sound());
  pass_schedule next;
  std::vector<told_schedule> told;
  for (auto& x : schedule) {
    if (std::ranges::find(x.own, nullptr) != x.own.end())
      return core::fail(core::error_kind::bad_input, "compile: own: wanted passes, got none in the place of one");
    if (p.processes.is_on() && !x.own.empty())
      return core::fail(core::error_kind::bad_input,
                        "compile: own: wanted no passes of the program's own beside cluster.processes, since the other "
                        "processes do not have them, got " +
                            std::to_string(x.own.size()));
    told.push_back({x.step, x.passes, x.is_automatic, x.tried_steps});
    if (!next.entries.empty() && x.step <= next.entries.back().step)
      return core::fail(core::error_kind::bad_input, "compile: wanted steps that ascend, got " +
                                                         std::to_string(x.step) + " behind " +
                                                         std::to_string(next.entries.back().step));
    job::pass_wish wish{std::move(x.passes), std::move(x.own), x.is_automatic, {}};
    // Refuses an entry now instead of at its step, as far as that does not depend on measurements.
    TROUPE_TRY(job::change_steps(p.plan, wish));
    for (const uint64_t from : p.plan.compression->phases()) {
      job::blueprint later = p.plan;
      if (from <= p.progress.applied) continue;
      TROUPE_TRY(job::enter_phase(later, from));
      TROUPE_TRY(job::change_steps(later, wish));
    }
    next.entries.push_back({x.step, std::move(wish), x.tried_steps});
  }
  next.times = std::move(p.passes.times);  // times of the plans that steps still run by
  next.step_s = p.passes.step_s;
  p.passes = std::move(next);
  if (p.processes.is_on()) {
    p.processes.link->tell(encode(peer_call(schedule_call{told})));
    p.processes.schedule = std::move(told);
  }
  return {};
}

}  // namespace troupe::actors
