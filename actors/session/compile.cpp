// Passes between steps: when the plans of training change, and to what. Owns the switch; job/compile.hpp chooses, the
// checker proves.
#include <utility>

#include "actors/session/parts.hpp"
#include "plan/choose/measured_prices.hpp"

namespace troupe::actors {
namespace {

/// Null before anything was measured that later steps repeat.
std::shared_ptr<const plan::measured_prices> prices_of(const telemetry::instruction_times& times,
                                                       const plan::cost_model& costs) {
  if (times.steps() == 0 || !times.is_warm()) return nullptr;
  auto out = std::make_shared<plan::measured_prices>(costs);
  for (const auto& p : times.plans())
    for (const auto& x : p->instructions) out->add(*p, x, times.seconds(*p, x));
  return out;
}

/// What does not change states is left out: where they lie has to stay.
core::result<void> same_states(const plan::rank_plan& before, const plan::rank_plan& after) {
  const auto& a = *before.layout;
  const auto& b = *after.layout;
  if (a.full_offset == b.full_offset && a.pipeline_of == b.pipeline_of &&
      before.resident_elements[0] == after.resident_elements[0] && before.swap_file_bytes == after.swap_file_bytes)
    return {};
  return core::fail(core::error_kind::bad_input, "passes between two steps: wanted states where they are, got others");
}

/// Windows onto files and onto the host cannot grow between steps.
bool fit_windows(std::span<const plan::pool_sizes> wanted, std::span<const plan::pool_sizes> there) {
  for (size_t r = 0; r < wanted.size(); ++r)
    for (const auto k : {plan::pool::states, plan::pool::shards, plan::pool::reduced, plan::pool::activations})
      if (wanted[r].of(k) > there[r].of(k)) return false;
  return true;
}

}  // namespace

void session::parts::schedule_passes() {
  const auto& compile = plan.config->compile;
  for (const auto& x : compile.entries()) {
    // Without a schedule of its own a run measures its first steps, wherever it begins.
    const bool is_measured = compile.schedule.empty() && x.step > 0;
    const uint64_t from = is_measured ? progress.steps : 0;
    passes.entries.push_back({from + x.step, job::wish_of(*plan.config, x), is_measured ? compile.profile_steps : 0});
  }
  if (!plan.compiled) return;
  passes.next = 1;
  // The plan without passes is tried as well: prices do not say how much instructions slow each other down.
  const bool is_plain = plan.compiled->chosen.options == plan.compiled->base.options;
  if (compile.schedule.empty() && plan.compiled->base.fits && !is_plain)
    passes.entries.push_back({passes.entries.back().step + compile.profile_steps, {}, compile.profile_steps});
  if (host.hooks.on_passes) host.hooks.on_passes({progress.steps, false, *plan.compiled, {}});
}

core::result<void> session::parts::change_passes() {
  if (auto ok = end_trial(); !ok) return ok;
  const auto& entries = passes.entries;
  size_t end = passes.next;
  while (end < entries.size() && entries[end].step <= progress.steps) ++end;
  if (end == passes.next) return {};
  const auto& entry = entries[end - 1];
  const auto prices = prices_of(passes.times, plan.costs);
  plan::instruction_price price;
  if (prices != nullptr)
    price = [prices](const plan::rank_plan& p, const plan::instruction& x) { return prices->seconds(p, x); };
  auto changed = job::change_steps(plan, entry.wish, price);
  if (!changed) return core::fail(changed.error());
  passes.next = end;
  const auto& now = plan.options[static_cast<size_t>(plan::plan_choice::train)];
  if (entry.tried_steps > 0 && changed->train == now) {
    if (host.hooks.on_passes && prices != nullptr)
      host.hooks.on_passes({progress.steps, true, std::move(changed->compiled), {}});
    return {};
  }
  const double step_s = prices != nullptr ? passes.times.least_step_s() : passes.step_s;
  if (entry.tried_steps > 0 && (step_s <= 0 || !fit_windows(changed->pools, plan.pools))) return {};
  std::optional<pass_schedule::earlier> before;
  if (entry.tried_steps > 0)
    before = {progress.steps + entry.tried_steps,
              step_s,
              {now,
               plan.options[static_cast<size_t>(plan::plan_choice::train_saving)],
               plan.train,
               {},
               plan.compiled.value_or(plan::compiled_step{})}};
  if (auto ok = take_steps(std::move(*changed), {progress.steps, prices != nullptr, {}, {}}); !ok) return ok;
  passes.before = std::move(before);
  return {};
}

core::result<void> session::parts::end_trial() {
  const auto& now = passes.times;
  const bool is_measured = now.steps() > 0 && now.is_warm();
  if (!passes.before || progress.steps < passes.before->until || !is_measured) return {};
  auto before = *std::exchange(passes.before, std::nullopt);
  if (now.least_step_s() <= before.step_s) return {};
  before.steps.pools = plan.pools;
  auto done = take_steps(std::move(before.steps), {progress.steps, true, {}, {{before.step_s, now.least_step_s()}}});
  passes.step_s = before.step_s;
  return done;
}

core::result<void> session::parts::take_steps(job::changed_steps changed, passes_report report) {
  const auto all = changed.plans.all();
  if (!all) return core::fail(all.error());
  for (uint32_t r = 0; r < memory.ranks.size(); ++r)
    if (auto ok = same_states(memory.ranks[r]->plan(), *(*all)[r]); !ok) return ok;
  passes.times = {};
  passes.step_s = 0;
  for (uint32_t r = 0; r < memory.ranks.size(); ++r)
    if (auto ok = memory.ranks[r]->train_by((*all)[r], changed.pools[r]); !ok) return ok;
  plan.options[static_cast<size_t>(plan::plan_choice::train)] = changed.train;
  plan.options[static_cast<size_t>(plan::plan_choice::train_saving)] = changed.train_saving;
  plan.pools = std::move(changed.pools);
  plan.train = std::move(changed.plans);
  use_programs(plan::plan_choice::train, *all);
  for (const auto& rank : programs) (*rank)[static_cast<size_t>(plan::plan_choice::train_saving)] = nullptr;
  report.compiled = changed.compiled;
  plan.compiled = std::move(changed.compiled);
  if (host.hooks.on_passes) host.hooks.on_passes(report);
  return {};
}

void session::parts::measure(std::span<const telemetry::rank_spans> step) {
  if (passes.next < passes.entries.size() || passes.before) passes.times.add(step);
}

core::result<void> session::compile(std::vector<scheduled_passes> schedule) {
  auto& p = *parts_;
  if (auto ok = p.sound(); !ok) return ok;
  pass_schedule next;
  for (auto& x : schedule) {
    if (!next.entries.empty() && x.step <= next.entries.back().step)
      return core::fail(core::error_kind::bad_input, "compile: wanted steps that ascend, got " +
                                                         std::to_string(x.step) + " behind " +
                                                         std::to_string(next.entries.back().step));
    job::pass_wish wish{std::move(x.passes), std::move(x.own), x.is_automatic, {}};
    // Refused now and not when its step comes, as far as that does not depend on what is measured.
    if (auto ok = job::change_steps(p.plan, wish); !ok) return core::fail(ok.error());
    next.entries.push_back({x.step, std::move(wish), x.tried_steps});
  }
  next.times = std::move(p.passes.times);  // of the plans that steps still run by
  next.step_s = p.passes.step_s;
  p.passes = std::move(next);
  return {};
}

}  // namespace troupe::actors
