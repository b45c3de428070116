#include "apps/tune/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "apps/tune/child_process.hpp"
#include "apps/tune/trial_events.hpp"
#include "core/clock.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

/// Milliseconds between two looks at a trial's memory.
constexpr int look_ms = 20;
/// Seconds that a trial has to end by itself after it was asked to.
constexpr double trial_grace_s = 5;

/// Returns the sentence of a failed program: its last error, without the words that every error begins with.
std::string failure_of(int code, const std::string& error) {
  std::string_view text = error;
  if (constexpr std::string_view begin = "troupe: error: "; text.starts_with(begin)) text.remove_prefix(begin.size());
  const std::string ended =
      code > 128 ? fmt::format("signal {} ended it", code - 128) : fmt::format("exit code {}", code);
  return text.empty() ? ended : fmt::format("{}: {}", ended, core::shown(text, 300));
}

}  // namespace

double patience_of(uint64_t steps, double predicted_step_s) {
  return std::max(trial_patience_s, trial_patience_factor * static_cast<double>(steps) * predicted_step_s);
}

trial_result run_trial(const std::vector<std::string>& command, const trial_limits& limits,
                       const std::function<bool()>& stops) {
  trial_result out;
  const int64_t begin_ns = core::now_ns();
  const auto child = child_process::start(command);
  if (!child) {
    out.failure = child.error().text;
    return out;
  }
  auto& program = **child;
  trial_events events;
  int64_t step_ns = begin_ns;  // time of the last step
  const auto line = [&](std::string_view text) {
    if (events.take(text)) step_ns = core::now_ns();
  };
  while (!program.ended()) {
    program.listen(look_ms, line);
    const uint64_t held = program.memory_bytes();
    out.peak_bytes = std::max(out.peak_bytes, held);
    if (limits.memory_bytes > 0 && held > limits.memory_bytes) {
      out.failure =
          fmt::format("outgrew the memory: {} of {}", core::human_bytes(held), core::human_bytes(limits.memory_bytes));
      program.end(0);
    } else if (core::seconds_since(step_ns) > limits.patience_s) {
      out.failure = fmt::format("hung: no step for {:.4g} s after {} steps", limits.patience_s, events.steps());
      program.end(trial_grace_s);
    } else if (stops()) {
      out.stopped = true;
      out.failure = "stopped";
      program.end(trial_grace_s);
    }
  }
  while (program.listen(0, line)) {
  }
  out.seconds = core::seconds_since(begin_ns);
  if (!out.failure.empty()) return out;
  if (const int code = *program.ended(); code != 0) {
    out.failure = failure_of(code, program.last_error());
    return out;
  }
  out.step_s = events.step_s();
  if (!(out.step_s > 0))
    out.failure = fmt::format("made {} steps, of which none after the first {} counts", events.steps(), warm_steps);
  return out;
}

std::vector<std::string> quiet_overrides(const config::job_config& c, const std::filesystem::path& output) {
  std::vector<std::string> out{fmt::format("output={}", output.string())};
  const auto set = [&](bool acts, const char* text) {
    if (acts) out.emplace_back(text);
  };
  set(c.checkpoint.every_steps > 0, "checkpoint.every_steps=0");
  set(c.checkpoint.every_minutes > 0, "checkpoint.every_minutes=0");
  set(!c.checkpoint.load.path.empty() && !c.checkpoint.load.module_only, "checkpoint.load.module_only=true");
  set(c.telemetry.report, "telemetry.report=false");
  set(c.telemetry.trace, "telemetry.trace=false");
  set(c.telemetry.json_lines, "telemetry.json_lines=false");
  set(c.tensorboard.enabled, "tensorboard.enabled=false");
  set(c.csv_monitor.enabled, "csv_monitor.enabled=false");
  set(c.mlflow.enabled, "mlflow.enabled=false");
  set(c.wandb.enabled, "wandb.enabled=false");
  set(c.comms_logger.enabled, "comms_logger.enabled=false");
  set(c.flops_profiler.enabled, "flops_profiler.enabled=false");
  set(c.wall_clock_breakdown, "wall_clock_breakdown=false");
  set(c.memory_breakdown, "memory_breakdown=false");
  set(c.sample.tokens > 0, "sample.tokens=0");
  set(c.evaluation.every_steps > 0, "evaluation.every_steps=0");
  set(c.data.has_validation(), "evaluation.batches=1");
  set(!c.cluster.page.empty(), "cluster.page=0");  // a port that no other run has
  return out;
}

}  // namespace troupe::apps
