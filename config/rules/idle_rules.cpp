// Warns about keys that are given, and that other keys leave without effect: all keys of some sections, and keys of
// further sections whose switch is missing. Leaves most reasons to keys/idle.cpp, which `explain` shows for all keys.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "config/keys/idle.hpp"
#include "config/keys/values.hpp"
#include "config/rules/resolve.hpp"

namespace troupe::config {
namespace {

/// Warns if checkpoint.keep_last or checkpoint.keep_every match no checkpoint that the run saves by itself, or only few
/// of them.
void retention(const settings& given, const job_config& config, reporter& report) {
  const auto& c = config.checkpoint;
  constexpr std::string_view last = "checkpoint.keep_last", every = "checkpoint.keep_every";
  for (const auto& [key, value] : {std::pair(last, c.keep_last), {every, c.keep_every}})
    if (value > 0 && !c.is_on() && c.tag.empty())
      report.warn(given.where(key), std::string(key),
                  "acts only on checkpoints that are requested, such as by SIGUSR1, because neither "
                  "checkpoint.every_steps nor checkpoint.every_minutes is set");
  if (c.keep_every == 0 || c.every_steps == 0 || c.every_minutes > 0 || c.keep_every % c.every_steps == 0) return;
  const uint64_t apart = c.every_steps / std::gcd(c.every_steps, c.keep_every);
  const bool stays_any = apart <= config.steps / c.keep_every;
  const std::string what = stays_any ? fmt::format("keeps those of multiples of {} steps alone", apart * c.keep_every)
                                     : fmt::format("keeps none of them before the end, after {} steps", config.steps);
  report.warn(given.where(every), std::string(every),
              fmt::format("{}, because checkpoints are due every {} steps (checkpoint.every_steps); a multiple of "
                          "that number keeps more",
                          what, c.every_steps));
}

/// A switch: a key without which the keys of a section, or another single key, have no effect.
struct section_switch {
  std::string_view of;  ///< the section or key that has no effect without `key`
  std::string_view key;
};
constexpr section_switch switches[] = {
    {"fp16", "fp16.enabled"},
    {"bf16", "bf16.enabled"},
    {"elasticity", "elasticity.enabled"},
    {"compile", "compile.deepcompile"},
    {"on_spike", "on_spike.action"},
    {"tensorboard", "tensorboard.enabled"},
    {"csv_monitor", "csv_monitor.enabled"},
    {"flops_profiler", "flops_profiler.enabled"},
    {"comms_logger", "comms_logger.enabled"},
    {"cluster.lost_after", "cluster.processes"},
    {"cluster.spares", "cluster.processes"},
    {"cluster.on_loss", "cluster.processes"},
    {"cluster.restarts", "cluster.processes"},
    {"checkpoint.memory", "cluster.processes"},
    {"cluster.page_token_file", "cluster.page"},
    {"cluster.page_tls", "cluster.page"},
};

/// Returns the reason why a key has no effect, if its section has a switch in `switches` that the file does not
/// mention; else an empty text. A switch that is given as `false` or `auto` was turned off on purpose and causes no
/// warning.
std::string without_switch(const settings& given, const job_config& config, const key_info& row) {
  const auto at =
      std::ranges::find_if(switches, [&](const section_switch& s) { return s.of == row.section() || s.of == row.key; });
  if (at == std::end(switches) || at->key == row.key) return {};
  const bool is_memory_off = config.checkpoint.memory.every_steps == 0;
  // A value of 0 turns saves in memory off; without `cluster.processes` they are off anyway, so 0 needs no warning.
  if (row.key == "checkpoint.memory.every_steps" && is_memory_off) return {};
  if (given.given.contains(at->key) || given.was_refused(at->key) || given.lists.contains(at->key)) return {};
  const key_info* const named = key_named(at->key);
  const bool is_flag = named != nullptr && named->type == value_type::boolean;
  const bool is_off = is_flag ? !given.is_on(at->key) : !idle(row, config).empty();
  return is_off ? fmt::format("{} is not given", at->key) : "";
}

/// Warns about given keys whose value another key of the same section replaces.
void replaced(const settings& given, const job_config& config, reporter& report) {
  const auto warn = [&](std::string_view key, std::string text) {
    report.warn(given.where(key), std::string(key), std::move(text));
  };
  if (config.prescale_gradients && config.gradient_predivide_factor != 1)
    warn("gradient_predivide_factor",
         "no effect: prescale_gradients is true, which divides by the number of data ranks before the sum");
  const auto& log = config.comms_logger;
  if (log.enabled && log.prof_all && !log.prof_ops.empty())
    warn("comms_logger.prof_ops", "no effect: comms_logger.prof_all is true; set it to false to log only these");
  if (log.enabled && !log.prof_all && log.prof_ops.empty())
    warn("comms_logger.prof_all", "false: no collective is logged, because comms_logger.prof_ops is empty");
}

}  // namespace

void idle_rules(const settings& given, const job_config& config, reporter& report) {
  constexpr std::string_view sections[] = {"activation_checkpointing", "evaluation", "pipeline", "telemetry"};
  for (const auto& [key, s] : given.given) {
    if (s.value == nullptr || s.held_back || s.row->support.acts != effect::acts) continue;
    if (is_default(*s.row, *s.value)) continue;
    const bool is_listed = std::ranges::find(sections, s.row->section()) != std::end(sections);
    const std::string why = is_listed ? idle(*s.row, config) : without_switch(given, config, *s.row);
    if (!why.empty()) report.warn(s.name_at, key, fmt::format("no effect: {}", why));
  }
  replaced(given, config, report);
  retention(given, config, report);
}

}  // namespace troupe::config
