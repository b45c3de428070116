#include "actors/session/session.hpp"

#include <chrono>
#include <exception>
#include <utility>

#include "actors/host_thread.hpp"
#include "actors/session/host_model.hpp"
#include "actors/session/parts.hpp"
#include "core/clock.hpp"
#include "core/cores.hpp"
#include "job/measured_costs.hpp"
#include "plan/layout/communicators.hpp"
#include "plan/schedule/text.hpp"

namespace troupe::actors {
namespace {

/// Longest time that a warning during a run waits before the host receives it.
constexpr std::chrono::seconds warnings_wait_max{1};
}  // namespace

void session::parts::use_programs(plan::plan_choice which, plan::rank_plans plans) {
  for (uint32_t r = 0; r < plans.size(); ++r) {
    if (programs.size() <= r) programs.push_back(std::make_shared<rank_programs>());
    (*programs[r])[static_cast<size_t>(which)] = std::make_shared<const program>(plans[r]);
  }
}

// Writes plans other than training's at their first use, because most runs never save or sample. Their sizes were
// proved when the session was opened, so nothing is refused here.
core::result<void> session::parts::want(plan::plan_choice which) {
  if (program_of(which, 0) != nullptr) return {};
  TROUPE_ASSIGN(const auto written, plan.write(which));
  TROUPE_ASSIGN(const auto all, written.all());
  use_programs(which, all);
  return {};
}

uint64_t session::parts::peak_bytes(uint32_t rank) const {
  return processes.is_here(rank) ? memory.ledger->peak_bytes(memory.ledger->owner(rank)) : processes.peak_bytes[rank];
}

session::session(std::unique_ptr<parts> p) : parts_(std::move(p)) {}

session::~session() {
  parts_->host.hooks = {};  // the destructor must not call the host, whose thread may be in any state
  (void)parts_->end_saves();
  parts_->finish({});
  if (const auto& link = parts_->processes.link) {
    link->on_end({});
    link->on_note({});
  }
  parts_->end_actors();
  if (const auto& shared = parts_->processes.shared) shared->stop({core::error_kind::stopped, "the session has ended"});
}

std::shared_ptr<step_order> session::parts::order_for(plan::plan_choice which, uint64_t step, const run_wish& wish) {
  auto order = std::make_shared<step_order>();
  order->run = ++counts.runs;
  order->step = step;
  order->applied = progress.applied;
  if (!progress.input_ranges.empty())
    order->input_ranges = std::make_shared<const std::vector<kernels::activation_range>>(progress.input_ranges);
  order->settings = job::settings_of(*plan.optimizer, progress.scheduled);
  order->loss_scale = progress.scale.cur_scale;
  order->loads = counts.loads;
  order->collectives_before = counts.collectives;
  order->given = wish.given;
  order->micros = wish.micros;
  order->keeps_logits = wish.keeps_logits;
  order->output = wish.output;
  order->computes_loss = wish.computes_loss;
  std::vector<std::shared_ptr<const plan::rank_plan>> plans;
  for (uint32_t r = 0; r < programs.size(); ++r) plans.push_back(program_of(which, r)->plan);
  plan::add_collectives(counts.collectives, plans);
  return order;
}

core::result<run_outcome> session::parts::run(plan::plan_choice which, uint64_t step, const run_wish& wish) {
  TROUPE_TRY(sound());
  TROUPE_TRY(enter_phase());
  TROUPE_TRY(want(which));
  const auto order = order_for(which, step, wish);
  if (saves(which)) {
    order->save = saving.waiting != nullptr ? saving.waiting : processes.kept;
    if (saving.waiting != nullptr) saving.writing = std::exchange(saving.waiting, nullptr);
  }
  return run_everywhere(which, order);
}

core::result<run_outcome> session::parts::run_here(plan::plan_choice which, const std::shared_ptr<step_order>& order) {
  core::result<run_outcome> out = core::fail(core::error_kind::bug, "the supervisor did not answer");
  const host_caller self(*actors.system);
  // The wait has no time limit, because the ranks detect and report silence. The host receives waiting warnings
  // meanwhile.
  self->monitor(actors.members->supervisor);
  self->send(actors.members->supervisor, run_plan{which, order});
  bool answered = false;
  self->receive_while([&] { return !answered; })(
      [&](run_outcome& o) {
        answered = true;
        if (o.failure)
          out = core::fail(*o.failure);
        else
          out = std::move(o);
      },
      [&](const caf::down_msg& d) {
        answered = true;
        out = core::fail(core::error_kind::peer_lost, "supervisor ended: " + actors.system->render(d.reason));
      },
      caf::after(warnings_wait_max) >>
          [&] {
            if (host.thrown) return;
            try {
              deliver_warnings();
            } catch (...) {
              host.thrown = std::current_exception();
            }
          });
  // A monitor that is not removed stays with the supervisor, and keeps the memory of the ended actor.
  self->demonitor(actors.members->supervisor.address());
  if (!out) {
    over.why = out.error();
    // No rank updates before the last micro-batch of all ranks has been computed, unless updates are deferred
    // (zenflow).
    over.states_whole = plan::mode_of(which) != plan::mode::train ||
                        (over.lost_step->load() <= order->step && !plan.config->zero_optimization.zenflow.enabled);
  }
  return out;
}

core::result<run_outcome> session::parts::run_and_tell(plan::plan_choice which, uint64_t step, const run_wish& wish) {
  auto out = run(which, step, wish);
  deliver_warnings();
  return out;
}

core::result<step_report> session::parts::train_once() {
  TROUPE_TRY(keep_states());
  const bool saves = saving.waiting != nullptr || processes.kept != nullptr;
  step_report report;
  report.lr = job::settings_of(*plan.optimizer, progress.scheduled).front().lr;
  report.loss_scale = progress.scale.cur_scale;
  if (auto ok = begin_saliency(); !ok) {
    if (processes.is_on()) over.why = ok.error();  // the process that had the data is lost, or the run is over
    return core::fail(ok.error());
  }
  const int64_t before = core::now_ns();
  TROUPE_ASSIGN(auto did, run(saves ? plan::plan_choice::train_saving : plan::plan_choice::train, progress.steps));
  report.seconds = double(core::now_ns() - before) / 1e9;
  TROUPE_TRY(end_keeping());
  book(did);
  report.step = progress.steps;
  report.loss = did.result.loss;
  report.grad_norm = did.result.grad_norm;
  report.skipped = did.result.skipped;
  report.save_asked = did.save_asked;
  report.tokens = data.loader.shape.global_rows() * plan.sequence;
  const auto spans = std::make_shared<std::vector<telemetry::rank_spans>>();
  for (rank_report& r : *did.ranks) spans->push_back(std::move(r.spans));
  report.lanes = telemetry::summarise(*spans, core::usable_cores());
  report.lanes.control.between_s = report.seconds - report.lanes.whole_s;
  if (!report.skipped)
    if (auto ok = end_saliency(); !ok && !over.why) {
      over.why = ok.error();
      if (processes.is_on()) return core::fail(ok.error());
    }
  measure(*spans);
  record(report, spans);
  if (host.hooks.on_spans) host.hooks.on_spans(report.step, spans);
  return report;
}

// Books a step before the host is notified of it: an exception of a hook must not make the next call apply the batch
// again.
void session::parts::book(const run_outcome& did) {
  ++progress.steps;
  if (!did.result.skipped) {
    ++progress.applied;
    plan.compression->follow(did.result.input_ranges, progress.input_ranges);
    ++progress.scheduled;
  }
  if (plan.early.worth > 0)
    change_of_updates = undone.note(did.result.skipped || did.result.clipped, updates_early(), plan.early.worth);
  const job::ended_step ended{did.result.loss, did.result.skipped, plan.config->expects_overflow()};
  progress.judged = job::judge_loss(plan.config->on_spike, progress.recent_losses, ended);
  if (!progress.judged.is_spike) job::remember_loss(plan.config->on_spike, progress.recent_losses, ended);
  progress.gradient_factor = factor_of_mean(*did.ranks->front().spans.plan, progress.scale.cur_scale, plan.rules);
  auto scale = kernels::next_loss_scale(plan.loss_scale, progress.scale, did.result.skipped);
  if (scale)
    progress.scale = *scale;
  else
    over.why = scale.error();
}

core::result<step_report> session::step() {
  const core::usual_float_environment numbers;
  auto& p = *parts_;
  TROUPE_TRY(p.sound());
  TROUPE_TRY(p.open_records());
  for (const auto change : {&parts::change_passes, &parts::change_updates})
    if (auto ok = (p.*change)(); !ok) {
      p.over.why = ok.error();
      p.over.states_whole = true;
      return core::fail(ok.error());
    }
  if (p.processes.is_on() && p.processes.link->is_join_wanted()) TROUPE_TRY(p.end_term_for(0));
  p.begin_measuring();
  auto did = p.outlasting([&] { return p.train_once(); });
  if (!did) {
    p.deliver_warnings();
    return core::fail(did.error());
  }
  step_report& report = *did;
  const auto unscaled = p.over.why;  // the loss scale cannot be reduced further
  p.deliver_warnings();
  for (const auto& link : std::exchange(p.processes.slow_links_untold, {}))
    if (p.host.hooks.on_slow_link) p.host.hooks.on_slow_link(link);
  if (unscaled) return core::fail(*unscaled);
  if (p.progress.judged.is_spike) {
    auto spike = p.answer_spike(report);
    p.deliver_warnings();
    if (!spike) return core::fail(spike.error());
    if (p.host.hooks.on_spike) p.host.hooks.on_spike(*spike);
    report.spike = std::move(*spike);
    return report;
  }
  (void)p.collect_save(unfinished_save::leave);
  if (p.host.hooks.on_step) p.host.hooks.on_step(report);
  return report;
}

void session::stop(const std::string& why) { parts_->actors.stops.ask(why); }

uint64_t session::steps_done() const { return parts_->progress.steps; }
uint64_t session::validation_tokens() const {
  return parts_->modules.model != nullptr ? 0 : parts_->data.loader.corpus->validation_tokens();
}
uint64_t session::sequence() const { return parts_->plan.sequence; }
const core::model_table& session::table() const { return *parts_->plan.tensor.whole; }
const plan::rank_plan& session::training_plan(uint32_t rank) const {
  return *parts_->program_of(plan::plan_choice::train, rank)->plan;
}

std::string session::found_schedule_note() const { return parts_->plan.pipeline.search; }
std::string session::found_schedule() const {
  const auto& p = parts_->plan.pipeline;
  return p.search.empty() ? std::string() : plan::write_table(p.training.table);
}

std::string session::changed_units() const { return parts_->modules.changes; }
std::string session::found_degrees() const { return parts_->found_degrees; }

std::string session::chosen_tiers() const {
  const auto& b = parts_->plan;
  const auto& options = b.train.layout().options;
  return options.tiers.swaps() ? job::chosen_tiers(*b.config, options, b.costs) : std::string();
}

std::vector<rank_memory_report> session::memory() const {
  std::vector<rank_memory_report> out;
  for (uint32_t r = 0; r < parts_->memory.ranks.size(); ++r) {
    rank_memory_report one{parts_->memory.ranks[r]->resident(), parts_->peak_bytes(r)};
    one.tiers = parts_->memory.ranks[r]->plan().options().tiers;
    if (parts_->memory.offloaded != nullptr) one.offloaded_bytes = parts_->memory.offloaded->adjust(one.resident);
    out.push_back(one);
  }
  return out;
}

}  // namespace troupe::actors
