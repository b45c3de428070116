#include "actors/run/step_runner.hpp"

#include <chrono>
#include <cmath>
#include <exception>
#include <utility>

#include "actors/host_thread.hpp"
#include "actors/run/training_run.hpp"
#include "core/clock.hpp"
#include "core/system/cores.hpp"
#include "data/batch.hpp"
#include "data/corpus.hpp"
#include "plan/layout/communicators.hpp"

namespace troupe::actors {
namespace {

/// Longest time that a warning waits during a run of a plan before the host program receives it.
constexpr std::chrono::seconds warnings_wait_max{1};

}  // namespace

std::shared_ptr<step_order> step_runner::order_for(plan::plan_choice which, uint64_t step, const run_wish& wish) {
  auto order = std::make_shared<step_order>();
  static_cast<run_wish&>(*order) = wish;
  order->run = ++run_.counts.runs;
  order->step = step;
  order->applied = run_.progress.applied;
  if (!run_.progress.input_ranges.empty())
    order->input_ranges = std::make_shared<const std::vector<kernels::activation_range>>(run_.progress.input_ranges);
  order->settings = run_.rates.settings();
  order->loss_scale = run_.progress.scale.cur_scale;
  order->loads = run_.counts.loads;
  order->collectives_before = run_.term->collectives;
  std::vector<std::shared_ptr<const plan::rank_plan>> plans;
  for (uint32_t r = 0; r < run_.term->ranks(); ++r) plans.push_back(run_.term->program_of(which, r)->plan);
  plan::add_collectives(run_.term->collectives, plans);
  return order;
}

core::result<run_outcome> step_runner::run(plan::plan_choice which, uint64_t step, const run_wish& wish) {
  TROUPE_TRY(run_.sound());
  TROUPE_TRY(run_.passes.enter_phase());
  TROUPE_TRY(run_.term->want(which));
  const auto order = order_for(which, step, wish);
  if (saves(which)) {
    order->save = run_.saves.begin_writing();
    if (order->save == nullptr) order->save = run_.others->save_in_memory();
  }
  return run_.others->run(which, order);
}

core::result<run_outcome> step_runner::run_here(plan::plan_choice which, const std::shared_ptr<step_order>& order) {
  core::result<run_outcome> out = core::fail(core::error_kind::bug, "the supervisor did not answer");
  const host_caller self(*run_.home.system);
  // Waits for the supervisor without a time limit, because the ranks detect and report stalls; passes warnings to the
  // host program meanwhile.
  self->monitor(run_.term->members->supervisor);
  self->send(run_.term->members->supervisor, run_plan{which, order});
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
        out = core::fail(core::error_kind::peer_lost, "supervisor ended: " + run_.home.system->render(d.reason));
      },
      caf::after(warnings_wait_max) >>
          [&] {
            if (run_.host.thrown) return;
            try {
              run_.host.deliver();
            } catch (...) {
              run_.host.thrown = std::current_exception();
            }
          });
  // Removes the monitor, which would otherwise stay with the supervisor and keep the memory of the ended actor.
  self->demonitor(run_.term->members->supervisor.address());
  if (!out) {
    run_.over.why = out.error();
    // If a micro-batch could not be read, no rank has updated states yet, because updates follow the last micro-batch
    // of all ranks (unless they are deferred, by zenflow).
    run_.over.states_whole =
        plan::mode_of(which) != plan::mode::train ||
        (run_.over.lost_step->load() <= order->step && !run_.term->plan.config->zero_optimization.zenflow.enabled);
  }
  return out;
}

core::result<run_outcome> step_runner::run_and_tell(plan::plan_choice which, uint64_t step, const run_wish& wish) {
  auto out = run(which, step, wish);
  run_.host.deliver();
  return out;
}

core::result<void> step_runner::take_own_samples(uint64_t samples) {
  auto& shape = run_.term->loader.shape;
  const uint64_t done = run_.progress.steps;
  shape.first_sample = shape.samples_before(done - 1) + samples;
  shape.first_step = done;
  run_.loop.note_step(done);
  return run_.resumer.tell_loader();
}

core::result<step_report> step_runner::train_once(step_data data) {
  own_step own;
  if (data == step_data::of_host) {
    TROUPE_ASSIGN(auto asked, run_.loop.next_step());
    own = std::move(asked);
  }
  TROUPE_TRY(run_.rates.prepare());
  const bool is_own = own.samples > 0;
  const uint32_t micros = is_own ? own.micros : run_.term->loader.shape.micros_of(run_.progress.steps);
  TROUPE_TRY(run_.passes.use_micros(micros));
  TROUPE_TRY(run_.others->begin_save_in_memory());
  const bool saves = run_.saves.is_waiting() || run_.others->save_in_memory() != nullptr;
  step_report report;
  report.lr = run_.rates.settings().front().lr;
  report.loss_scale = run_.progress.scale.cur_scale;
  if (auto ok = run_.term->pruner.begin_saliency(); !ok) {
    // the error means that another process, which has some of the weights, was lost
    if (run_.others->are_there()) run_.over.why = ok.error();
    return core::fail(ok.error());
  }
  const int64_t before = core::now_ns();
  TROUPE_ASSIGN(auto did, run(saves ? plan::plan_choice::train_saving : plan::plan_choice::train, run_.progress.steps,
                              {.given = std::move(own.given), .own_samples = own.samples}));
  report.seconds = double(core::now_ns() - before) / 1e9;
  report.saved = saves;
  TROUPE_TRY(run_.others->end_save_in_memory());
  book(did);
  if (is_own)
    if (auto ok = take_own_samples(own.samples); !ok) {
      run_.over.why = ok.error();
      return core::fail(ok.error());
    }
  report.step = run_.progress.steps;
  report.loss = did.result.loss;
  report.grad_norm = did.result.grad_norm;
  report.skipped = did.result.skipped;
  report.save_asked = did.save_asked;
  const auto& loader = run_.term->loader;
  const uint64_t samples = is_own ? own.samples : loader.shape.rows * loader.shape.ranks * micros;
  report.tokens = samples * run_.term->plan.sequence;
  // Counting masked tokens would read the step's texts again.
  if (is_own)
    report.counted = own.counted == report.tokens ? 0 : own.counted;
  else if (loader.corpus != nullptr && loader.corpus->selects_targets() && loader.corpus->masking() == nullptr)
    report.counted = data::targets_of_step(*loader.corpus, loader.shape, report.step - 1).value_or(0);
  const auto spans = std::make_shared<std::vector<telemetry::rank_spans>>();
  for (rank_report& r : *did.ranks) spans->push_back(std::move(r.spans));
  report.lanes = telemetry::summarise(*spans, core::usable_cores());
  report.first_of_plan = !saves && std::exchange(layout_, spans->front().plan->layout) != spans->front().plan->layout;
  report.lanes.control.between_s = report.seconds - report.lanes.whole_s;
  if (!report.skipped)
    if (auto ok = run_.term->pruner.end_saliency(); !ok && !run_.over.why) {
      run_.over.why = ok.error();
      if (run_.others->are_there()) return core::fail(ok.error());
    }
  run_.recorder.record(report, spans);
  if (run_.host.hooks.on_spans) run_.host.hooks.on_spans(report.step, spans);
  return report;
}

void step_runner::book(const run_outcome& did) {
  ++run_.progress.steps;
  if (!did.result.skipped) {
    ++run_.progress.applied;
    run_.term->plan.compression->follow(did.result.input_ranges, run_.progress.input_ranges);
    ++run_.progress.scheduled;
    run_.rates.note_update();
  }
  run_.passes.note_undone(did.result.skipped || did.result.clipped);
  const job::ended_step ended{did.result.loss, did.result.skipped, run_.term->plan.config->expects_overflow()};
  run_.progress.judged = job::judge_loss(run_.term->plan.config->on_spike, run_.progress.recent_losses, ended);
  if (!run_.progress.judged.is_spike)
    job::remember_loss(run_.term->plan.config->on_spike, run_.progress.recent_losses, ended);
  run_.progress.gradient_factor =
      factor_of_mean(*did.ranks->front().spans.plan, run_.progress.scale.cur_scale, run_.term->plan.rules);
  auto scale = kernels::next_loss_scale(run_.term->plan.loss_scale, run_.progress.scale, did.result.skipped);
  if (scale)
    run_.progress.scale = *scale;
  else
    run_.over.why = scale.error();
}

core::result<step_report> step_runner::step() {
  const core::usual_float_environment numbers;
  auto& over = run_.over;
  TROUPE_TRY(run_.sound());
  TROUPE_TRY(run_.recorder.open());
  if (auto ok = run_.passes.change_plans(); !ok) {
    over.why = ok.error();
    over.states_whole = true;
    return core::fail(ok.error());
  }
  TROUPE_TRY(run_.others->let_join());
  const auto data = run_.loop.has_backwards() ? step_data::of_host : step_data::of_run;
  auto did = run_.outlast([&] { return train_once(data); });
  if (!did) {
    run_.host.deliver();
    return core::fail(did.error());
  }
  run_.loop.forget();
  step_report& report = *did;
  const auto unscaled = over.why;  // set by book(): the loss scale cannot be reduced further
  run_.host.deliver();
  for (const auto& link : run_.others->take_slow_links())
    if (run_.host.hooks.on_slow_link) run_.host.hooks.on_slow_link(link);
  if (unscaled) return core::fail(*unscaled);
  if (run_.progress.judged.is_spike) {
    auto spike = run_.spikes.answer(report);
    run_.rates.forget();  // the changes belong to steps that the run has left
    run_.host.deliver();
    if (!spike) return core::fail(spike.error());
    if (run_.host.hooks.on_spike) run_.host.hooks.on_spike(*spike);
    report.spike = std::move(*spike);
    return report;
  }
  if (std::isfinite(report.loss)) run_.saves.prove(report.step - 1);
  (void)run_.saves.collect(unfinished_save::leave);
  if (run_.host.hooks.on_step) run_.host.hooks.on_step(report);
  return report;
}

}  // namespace troupe::actors
