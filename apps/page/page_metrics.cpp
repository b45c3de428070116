#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "apps/page/page_texts.hpp"
#include "core/utf8.hpp"
#include "plan/memory_places.hpp"
#include "telemetry/figures/memory_table.hpp"
#include "telemetry/spans.hpp"

namespace troupe::apps {
namespace {

std::string number(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", v);
}

/// Returns `value` in quotes and escaped, as a label of a Prometheus metric.
std::string label_text(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? "\\n" : std::string(1, c);
  }
  return out + '"';
}

class metrics_text {
 public:
  /// Begins a metric; its values follow before the next metric begins.
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void value(double v, const std::string& labels = {}) {
    text += labels.empty() ? fmt::format("{} {}\n", name_, number(v))
                           : fmt::format("{}{{{}}} {}\n", name_, labels, number(v));
  }
  void gauge(std::string_view name, std::string_view help, double v) {
    family(name, "gauge", help);
    value(v);
  }
  void counter(std::string_view name, std::string_view help, double v) {
    family(name, "counter", help);
    value(v);
  }
  std::string text;

 private:
  std::string name_;
};

void add_last_step(metrics_text& out, const page_copy& all) {
  const auto& r = *all.last;
  out.family("troupe_loss", "gauge", "Training loss of the last step, mean over the global batch, nats per token.");
  out.value(r.loss, "unit=" + label_text(all.facts.loss_unit));
  out.gauge("troupe_learning_rate", "Learning rate of the last step.", r.lr);
  out.gauge("troupe_gradient_norm", "Norm of the mean gradient of the last step, before clipping.", r.grad_norm);
  out.gauge("troupe_loss_scale", "Loss scale of the last step; 1 without fp16.", r.loss_scale);
  out.gauge("troupe_step_seconds", "Seconds that the last step took.", r.seconds);
  out.gauge("troupe_tokens_per_second", "Tokens a second of the last step.",
            r.seconds > 0 ? double(r.tokens) / r.seconds : 0);
  out.gauge("troupe_compute_seconds", "Seconds of the last step in which the compute lane was busy, mean over ranks.",
            r.lanes.compute_s);
  out.gauge("troupe_communication_exposed_seconds",
            "Seconds of the last step in which collectives ran without any computation, mean over ranks.",
            r.lanes.exposed_s);
  if (r.lanes.step_s <= 0) return;
  out.family("troupe_lane_busy_ratio", "gauge", "Share of the last step in which a lane was busy, mean over ranks.");
  for (size_t l = 0; l < plan::num_lanes; ++l)
    out.value(std::clamp(1 - r.lanes.idle_s[l] / r.lanes.step_s, 0.0, 1.0),
              "lane=" + label_text(plan::name_of(static_cast<plan::lane>(l))));
}

void add_phases(metrics_text& out, const page_copy& all) {
  if (all.spans.empty() || all.spans.back().ranks->empty()) return;
  const auto times = telemetry::break_down(*all.spans.back().ranks, 0);
  out.family("troupe_step_phase_seconds", "gauge", "Seconds of the last step on rank 0, by phase; phases overlap.");
  for (const auto& [phase, ms] : {std::pair{"forward", times.forward_ms},
                                  {"backward", times.backward_inner_ms},
                                  {"reduce", times.backward_allreduce_ms},
                                  {"optimizer", times.step_ms},
                                  {"input", times.batch_input_ms}})
    out.value(ms / 1e3, "phase=" + label_text(phase));
}

void add_memory(metrics_text& out, const page_copy& all) {
  if (all.facts.memory_budget_bytes > 0)
    out.gauge("troupe_memory_budget_bytes", "Host memory that states of all ranks may take.",
              double(all.facts.memory_budget_bytes));
  if (!all.memory.empty()) {
    out.family("troupe_memory_bytes", "gauge",
               "Bytes of a rank by owner; tier nvme is swap files, device and host are those of a job on a GPU, "
               "activations are the measured peak.");
    for (size_t r = 0; r < std::min(all.memory.size(), page_ranks_max); ++r) {
      auto table = all.memory[r].resident;
      table.activations = all.memory[r].activations_peak_bytes;
      const auto& tiers = all.memory[r].tiers;
      for (const auto& o : plan::owners_of(table, tiers)) {
        const char* const tier = !tiers.apart ? "memory" : o.lies == plan::tier::device ? "device" : "host";
        if (o.bytes > 0)
          out.value(double(o.bytes), fmt::format("rank=\"{}\",tier=\"{}\",owner={}", r, tier, label_text(o.owner)));
      }
      if (table.swapped > 0)
        out.value(double(table.swapped), fmt::format("rank=\"{}\",tier=\"nvme\",owner=\"swapped states\"", r));
    }
  }
  out.gauge("troupe_process_resident_bytes", "Resident memory of the process that leads the run.",
            double(telemetry::process_resident_bytes()));
  out.gauge("troupe_process_peak_bytes", "Peak of the resident memory of that process.",
            double(telemetry::process_peak_bytes()));
}

void add_processes(metrics_text& out, const page_moment& now) {
  if (now.people.places.empty()) return;
  std::map<std::string, size_t> counts;
  for (const auto& p : now.people.places) ++counts[p.state];
  out.family("troupe_processes", "gauge", "Processes of the job, by state.");
  for (const auto& [state, count] : counts) out.value(double(count), "state=" + label_text(state));
  out.gauge("troupe_term", "The term, in which ranks, processes and degrees stay the same.", double(now.people.term));
}

}  // namespace

std::string page_metrics(const page_copy& all, const page_moment& now) {
  metrics_text out;
  out.family("troupe_run_info", "gauge", "Always 1; which run this is.");
  out.value(1,
            fmt::format("name={},version={}", label_text(core::shown(all.facts.name)), label_text(all.facts.version)));
  out.family("troupe_phase", "gauge", "1 for the phase of the run, 0 for the others.");
  for (const char* phase : {"opening", "training", "evaluating", "saving", "sampling", "paused", "over"})
    out.value(now.phase == phase ? 1 : 0, "phase=" + label_text(phase));
  out.gauge("troupe_start_time_seconds", "When this process began, in seconds since 1970.", all.started_unix_s);
  out.gauge("troupe_step", "Optimizer steps done; falls where a loss is recovered from.", double(now.step));
  out.gauge("troupe_planned_steps", "Optimizer steps that the run is to have.", double(all.facts.steps));
  out.counter("troupe_spikes_total", "Times that the run went back because its loss rose too far.",
              double(all.num_spikes));
  out.counter("troupe_samples_left_out_total", "Samples that it left out for that.", double(all.samples_left_out));
  out.counter("troupe_steps_run_total", "Steps that ended in this process, those done again too.",
              double(all.steps_run));
  out.counter("troupe_skipped_steps_total", "Steps that were skipped because gradients overflowed.",
              double(all.skipped));
  out.counter("troupe_tokens_total", "Tokens trained on in this process.", double(all.tokens));
  if (all.last) add_last_step(out, all);
  if (all.validation_loss) out.gauge("troupe_validation_loss", "The last validation loss.", *all.validation_loss);
  add_phases(out, all);
  add_memory(out, all);
  add_processes(out, now);
  out.counter("troupe_terms_total", "Terms after the first: a loss or a return of processes began each.",
              double(all.num_terms));
  out.counter("troupe_steps_again_total", "Steps that losses made the run do again.", double(all.steps_again));
  out.counter("troupe_lost_seconds_total", "Seconds from losses until the run was where it had been.", all.lost_s);
  out.counter("troupe_checkpoints_total", "Checkpoints written in this process.", double(all.num_checkpoints));
  if (all.checkpoint) {
    out.gauge("troupe_checkpoint_step", "Step of the last checkpoint.", double(all.checkpoint->step));
    out.gauge("troupe_checkpoint_seconds", "Seconds that the last checkpoint took.", all.checkpoint->seconds);
    out.gauge("troupe_checkpoint_waited_seconds", "Of these, seconds in which training waited.",
              all.checkpoint->waited_seconds);
    out.gauge("troupe_checkpoint_bytes", "Bytes of the last checkpoint.", double(all.checkpoint->bytes));
  }
  return std::move(out.text);
}

}  // namespace troupe::apps
