#include "apps/run/opened_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "apps/base/error_line.hpp"
#include "config/explain.hpp"
#include "core/clock.hpp"
#include "plan/choose/live_parameters.hpp"
#include "telemetry/figures/memory_table.hpp"
#include "telemetry/figures/trace.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

uint64_t memory_bytes(const actors::session& s) {
  uint64_t n = 0;
  for (const auto& m : s.memory()) n += m.resident.total() + m.activations_peak_bytes;
  return n;
}

}  // namespace

core::result<end_summary> opened_run::operator()(interrupts& stop) {
  auto end = go(stop);
  // States with numbers that are not finite must not replace an earlier checkpoint.
  if (!end && end.error().kind == core::error_kind::numeric)
    saved_.note_failure();
  else if (!end)
    rescue();
  return end;
}

void opened_run::rescue() {
  if (!saved_.keeps_end() || !session_.may_save()) return;
  if (auto ok = saved_.after_step(session_, checkpoints::moment::rescued); !ok)
    print_error_line("troupe: warning: " + ok.error().text);
}

core::result<end_summary> opened_run::go(interrupts& stop) {
  using moment = checkpoints::moment;
  TROUPE_TRY(sample_.prepare(session_));
  const int64_t begin = core::now_ns();
  const auto is_over = [&] { return stop.requested() || state_.is_stop_wanted(); };
  while (session_.steps_done() < config_.steps && !is_over()) {
    TROUPE_ASSIGN(const auto changed, degrees_.change(session_));
    if (!changed.empty()) say_(changed);
    TROUPE_ASSIGN(auto r, session_.step());
    count(r);
    if (r.spike) {
      tell_spike(*r.spike);
      continue;
    }
    end_.last_loss = r.loss;
    saved_.note_loss(r.step, r.loss);
    if (page_ != nullptr) page_->memory(session_.memory());
    // Updates the state before the step is printed, so that `troupe status`, called after the line appears, reports
    // this step.
    state_.step(r, memory_bytes(session_));
    show_.step(r, memory_bytes(session_));
    peak_.after_step(show_, say_);
    const uint64_t every = config_.evaluation.every_steps;
    if (every > 0 && r.step % every == 0 && r.step < config_.steps) TROUPE_TRY(evaluate(r.step, is_over));
    TROUPE_TRY(between_steps(stop, r.save_asked));
  }
  // After a process was lost, another process may become the leader when no steps remain; it must still write the
  // checkpoint that the lost leader did not write.
  if (steps_ > 0 || stop.terminated() || session_.recoveries().terms > 0) {
    state_.enter("saving");
    const moment why = stop.terminated() ? moment::rescued : moment::end;
    TROUPE_TRY(saved_.after_step(session_, why));
  }
  show_.finish_line();
  end_.seconds = double(core::now_ns() - begin) / 1e9;
  end_.stopped = session_.steps_done() < config_.steps;
  end_.steps = session_.steps_done();
  end_.trained = steps_;
  end_.checkpoints = saved_.counts();
  if (!end_.stopped && session_.validation_tokens() > 0) {
    TROUPE_TRY(evaluate(end_.steps, is_over));
    end_.has_validation = last_evaluated_ == end_.steps;
    if (!end_.has_validation) say_("the last evaluation was interrupted; the same command evaluates again");
  }
  // The last checkpoint is written before the loss of its weights is computed: a process that is killed meanwhile
  // leaves that checkpoint and the one before.
  const bool even_unsaved = is_exported_ || steps_ == 0;
  TROUPE_TRY(saved_.prove_last(session_, even_unsaved));
  end_.broken = saved_.broken().has_value();
  end_.unsaved = end_.broken || saved_.unsaved();
  TROUPE_TRY(sample());
  finish();
  return end_;
}

// Writes saves that are due or requested, and waits while the run is paused; further saves may be requested meanwhile.
core::result<void> opened_run::between_steps(interrupts& stop, bool save_asked) {
  using moment = checkpoints::moment;
  for (bool again = true; again;) {
    // If a client waits for the result of a requested save, waits here for the save in progress, so that the requested
    // one starts now; other saves overlap with training.
    if (state_.is_save_wanted())
      if (auto ok = session_.wait_for_saves(); !ok && !session_.may_save()) return ok;
    const bool wished = state_.take_save_wish();
    if (wished) state_.enter("saving");
    const bool asked = stop.take_save_request() || save_asked || wished;
    TROUPE_TRY(saved_.after_step(session_, asked ? moment::asked : moment::step));
    if (wished) {
      if (auto ok = session_.wait_for_saves(); !ok)
        state_.checkpoint_failed(ok.error().text);
      else if (const auto why = saved_.broken())
        state_.checkpoint_failed(why->text);
      state_.end_wish();
      state_.enter("training");
    }
    save_asked = false;
    // Recovers from a loss during a pause immediately, so that answers about the paused run show the new ranks.
    for (bool waits = true; waits;) {
      waits = false;
      state_.wait_while_paused([&] { return stop.requested() || (waits = session_.has_losses()); });
      TROUPE_TRY(session_.recover());
    }
    again = state_.is_save_wanted() && !stop.requested();
  }
  return {};
}

void opened_run::count(const actors::step_report& r) {
  end_.skipped += r.skipped;
  tokens_ += double(r.tokens);
  end_.counted_tokens += r.counted;
  seconds_ += r.seconds;
  ++steps_;
  end_.steps_to_compare.add(r);
  telemetry::add_step(end_.lanes, r.lanes, steps_);
}

void opened_run::tell_spike(const actors::loss_spike& s) {
  ++end_.spikes;
  saved_.went_back(session_.steps_done(), !s.from_memory);
  state_.went_back(session_.steps_done());
  show_.spike(s);
  if (page_ == nullptr) return;
  page_->spike(s);
  page_->line(spike_sentence(s));
}

// Evaluates all validation sets after step `step`. Ends the evaluation after the current batch, without a result, once
// `is_over` returns true, so that the run's last states can be saved without delay.
core::result<void> opened_run::evaluate(uint64_t step, const std::function<bool()>& is_over) {
  last_evaluated_.reset();
  end_.steps_to_compare.note_evaluation();
  bool is_whole = true, is_first = true;
  for (const std::string& set : session_.validation_sets()) {
    TROUPE_ASSIGN(is_whole, evaluate_set(set, is_first, step, is_over));
    if (!is_whole) return {};
    is_first = false;
  }
  last_evaluated_ = step;
  return {};
}

// Evaluates one validation set, of which the first decides the run's validation loss. Returns false if the evaluation
// was ended early.
core::result<bool> opened_run::evaluate_set(const std::string& set, bool is_first, uint64_t step,
                                            const std::function<bool()>& is_over) {
  state_.enter("evaluating");
  auto did = session_.evaluate(
      {.batches = config_.evaluation.batches, .set = set, .go_on = [&is_over] { return !is_over(); }});
  state_.enter("training");
  if (!did) return core::fail(did.error());
  if (did->ended_early) return false;
  // A finite loss of the averages says nothing about the weights.
  if (!config_.ema.evaluate || !std::isfinite(did->loss)) saved_.note_evaluation(step, did->loss);
  show_.evaluation(step, did->loss, set);
  if (is_first) {
    state_.evaluation(did->loss);
    end_.validation_loss = did->loss;
  } else if (page_ != nullptr) {
    page_->line(fmt::format("validation loss {:.4f} of {} after step {}", did->loss, set, step));
  }
  return true;
}

core::result<void> opened_run::sample() {
  if (!sample_.is_wanted()) return {};
  state_.enter("sampling");
  TROUPE_ASSIGN(auto made, sample_.make(session_));
  end_.sample = std::move(made.text);
  end_.no_sample = std::move(made.missing);
  return {};
}

void opened_run::finish() {
  end_.peak_flops = peak_.flops();
  end_.tokens_per_s = seconds_ > 0 ? tokens_ / seconds_ : 0;
  end_.memory = session_.memory();
  for (uint32_t r = 0; r < end_.memory.size(); ++r)
    end_.peak_live_elements = std::max(end_.peak_live_elements, plan::peak_live_parameters(session_.training_plan(r)));
  end_.model_elements = session_.table().numel();
  for (const auto& u : session_.table().units) end_.units.push_back(u.name);
  end_.process_peak_bytes = telemetry::process_peak_bytes();
  end_.output_folder = config_.output.string();
  const auto records = session_.finish({{}, end_.seconds, config::effective_yaml(loaded_), end_.sample});
  // The telemetry actor writes the trace on its own thread; finish() waits for it.
  if (steps_ > 0 && config_.telemetry.traces(session_.steps_done()) && fs::exists(config_.output / "trace.json"))
    end_.trace_file = (config_.output / "trace.json").string();
  end_.report_file = records.report_file;
  end_.communication_table = records.communication_table;
  end_.num_not_recorded = records.num_dropped;
  end_.pipeline = records.pipeline;
}

}  // namespace troupe::apps
