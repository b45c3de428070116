// Warns about given keys that other keys leave without effect: keys that act only together with another key, keys of
// sections whose switch is missing, and keys that start to act only after the last step of the run. Leaves most
// reasons to keys/idle.cpp, which `explain` shows for all keys.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

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

/// Returns the switch of a key that has a value, if the switch is off and the file does not mention it; else null. A
/// switch that is given as `false` or `auto` was turned off on purpose and causes no warning.
const key_switch* missing_switch(const settings& given, const job_config& config, const setting& s) {
  const key_switch* const by = switch_of(*s.row);
  if (by == nullptr || given.given.contains(by->key)) return nullptr;
  if (!by->same_without.empty() && s.value->text == by->same_without) return nullptr;
  // The folder of swap files also has an effect without the switch of its section, if activations are stored in it.
  return idle(*s.row, config).empty() || switched_off(*s.row, config).empty() ? nullptr : by;
}

/// Returns text to append to a warning about a key without effect, if a launcher may give the key an effect: a
/// launcher sets cluster.processes, cluster.hosts and parallel.data of a file that lacks them
/// (apps/launch/launched_job.cpp).
std::string_view unless_launched(const settings& given, std::string_view key) {
  if (key == "cluster.processes") return ", unless a launcher sets it";
  const bool has_degree = given.given.contains("parallel.data") || given.given.contains("parallel.ranks");
  if (key == "prescale_gradients") return has_degree ? "" : ", unless a launcher sets parallel.data";
  return key == "checkpoint.use_node_local_storage" ? ", unless a launcher sets cluster.hosts" : "";
}

/// True if the file itself says that the switch of the key is off.
bool is_off_on_purpose(const settings& given, const key_info& row) {
  const key_switch* const by = switch_of(row);
  if (by == nullptr || !given.given.contains(by->key)) return false;
  return given.is_auto(by->key) || given.text_of(by->key) == key_named(by->key)->default_text;
}

/// True if a warning reports the reason that idle() returns for this key. No warning is needed for keys whose name
/// says when they act (`stage3_...`), keys that have rules of their own, and keys that a launcher completes
/// (`cluster.tls`).
bool is_told(const key_info& row) {
  constexpr std::string_view sections[] = {"activation_checkpointing",
                                           "aio",
                                           "cluster.restarts",
                                           "compression_training.sparse_pruning.shared_parameters",
                                           "distillation.terms",
                                           "distillation.terms.logits",
                                           "elasticity",
                                           "evaluation",
                                           "fp16",
                                           "on_spike",
                                           "pipeline",
                                           "telemetry",
                                           "zero_optimization.offload_optimizer",
                                           "zero_optimization.offload_param"};
  constexpr std::string_view keys[] = {"checkpoint.load.lr_scheduler_states",
                                       "checkpoint.load.optimizer_states",
                                       "checkpoint.memory.copies",
                                       "checkpoint.use_node_local_storage",
                                       "checkpoint.when_busy",
                                       "cluster.min_ranks",
                                       "cluster.offload_activations_units",
                                       "cluster.spares",
                                       "cluster.swap_checksums",
                                       "comms_logger.prof_ops",
                                       "data.bin_dtype",
                                       "data.chat_date",
                                       "data.chat_template",
                                       "data.loss_on",
                                       "data.packing",
                                       "data.too_long",
                                       "distillation.temperature",
                                       "ema.evaluate",
                                       "gradient_predivide_factor",
                                       "model.teacher",
                                       "optimizer.params.dampening",
                                       "prescale_gradients",
                                       "scheduler.params.cycle_max_mom",
                                       "scheduler.params.cycle_min_mom",
                                       "scheduler.params.decay_lr_rate",
                                       "scheduler.params.decay_mom_rate",
                                       "sequence_parallel.enabled",
                                       "tensor_parallel.tensor_parallel.tp_grain_size",
                                       "tensor_parallel.tp_overlap_comm",
                                       "zero_optimization.allgather_bucket_size",
                                       "zero_optimization.ignore_unused_parameters",
                                       "zero_optimization.reduce_scatter",
                                       "zero_optimization.round_robin_gradients"};
  if (row.section().starts_with("zero_optimization.offload_") && row.name() == "device") return false;
  return std::ranges::find(sections, row.section()) != std::end(sections) ||
         std::ranges::find(keys, row.key) != std::end(keys);
}

/// Warns about keys of ZenFlow that start to act only after the last step of the run. After the warm-up, the other
/// columns are updated in every `update_interval`-th step, and columns are chosen in the first step and then in every
/// `select_interval`-th step, which is rounded up to a multiple of `update_interval`.
void late_updates_behind_the_end(const settings& given, const job_config& config, reporter& report) {
  constexpr uint64_t automatic_interval = 4;  // plan::default_update_interval, which job/ takes for `auto`
  const auto& z = config.zero_optimization.zenflow;
  if (!z.enabled) return;
  const auto warn = [&](const std::string& name, const std::string& what) {
    const std::string key = "zero_optimization.zenflow" + name;
    report.warn(given.where(key), key, fmt::format("{}, and the run has {} steps", what, config.steps));
  };
  if (z.full_warm_up_rounds >= config.steps) {
    warn(".full_warm_up_rounds", fmt::format("no effect: the first {} steps update everything", z.full_warm_up_rounds));
    return;
  }
  const uint64_t left = config.steps - z.full_warm_up_rounds, every = z.update_interval.value_or(automatic_interval);
  if (every > left) {
    warn(z.update_interval ? ".update_interval" : "",
         fmt::format("the columns that are not chosen are never updated: their first update is {} steps after the {} "
                     "of full_warm_up_rounds",
                     every, z.full_warm_up_rounds));
  } else if (z.select_interval && *z.select_interval > (left - 1) / every * every) {
    warn(".select_interval", fmt::format("no effect: columns are chosen once, because the next choice is more than {} "
                                         "steps after the first",
                                         left - 1));
  }
}

/// Warns about given keys that start to act only after the last step of the run.
void behind_the_end(const settings& given, const job_config& config, reporter& report) {
  const uint64_t steps = config.steps;
  if (steps == 0) return;
  const auto warn = [&](const std::string& key, const std::string& what) {
    report.warn(given.where(key), key, fmt::format("no effect: {}, and the run has {} steps", what, steps));
  };
  const auto& c = config.compression;
  const auto technique = [&](const char* name, bool is_on, uint64_t offset) {
    const std::string shared = fmt::format("compression_training.{}.shared_parameters.", name);
    if (!is_on || offset <= steps) return;  // after the last step, evaluations and `compress --clean` use a technique
    const bool is_given = given.value_of(shared + "schedule_offset") != nullptr;
    warn(shared + (is_given ? "schedule_offset" : "enabled"),
         fmt::format("{} begins after {} updates (schedule_offset)", name, offset));
  };
  technique("weight_quantization", c.weights.enabled, c.weights.schedule_offset);
  technique("activation_quantization", c.activations.enabled, c.activations.schedule_offset);
  for (const auto& [name, p] : {std::pair("sparse_pruning", &c.sparse),
                                {"row_pruning", &c.rows},
                                {"head_pruning", &c.heads},
                                {"channel_pruning", &c.channels}})
    technique(name, p->enabled, p->schedule_offset);
  if (config.compile.enabled)
    for (size_t k = 0; k < config.compile.schedule.size(); ++k)
      if (const uint64_t from = config.compile.schedule[k].step; from >= steps)
        warn(fmt::format("compile.schedule[{}].step", k), fmt::format("these passes begin after {} steps", from));
  for (size_t i = 0; i < config.data.skip.size(); ++i)
    if (config.data.skip[i].first > steps)
      warn(fmt::format("data.skip[{}].steps", i), fmt::format("it begins at step {}", config.data.skip[i].first));
  late_updates_behind_the_end(given, config, report);
  constexpr std::string_view least = "on_spike.min_steps";
  const auto& s = config.on_spike;
  if (s.action != spike_action::none && s.min_steps >= steps && given.value_of(least) != nullptr)
    report.warn(given.where(least), std::string(least),
                fmt::format("only a loss that is not finite is a spike: others are compared after {} steps, and the "
                            "run has {}",
                            s.min_steps, steps));
}

/// Warns about tied_gradients if the model has no tied parameters: the effective configuration does not show that the
/// key has no effect.
void without_ties(const settings& given, const job_config& config, reporter& report) {
  if (!given.refused.empty()) return;  // `config` does not have a refused value
  constexpr std::string_view key = "tied_gradients", tie = "model.tie_word_embeddings";
  const setting* const s = given.value_of(key);
  if (s != nullptr && config.tied == tied_gradients::per_use && given.value_of(tie) != nullptr && !given.is_on(tie))
    report.warn(s->name_at, std::string(key), fmt::format("no effect: {} is false", tie));
}

/// Warns about given keys whose effect another key of the same section restricts.
void narrowed(const settings& given, const job_config& config, reporter& report) {
  const auto warn = [&](std::string_view key, std::string text) {
    report.warn(given.where(key), std::string(key), std::move(text));
  };
  if (config.checkpoint.load.fallback_to_previous && config.checkpoint.use_node_local_storage &&
      !config.cluster.hosts.empty())
    warn("checkpoint.load.fallback_to_previous",
         "acts only on checkpoints of other programs, because the run's own are on its machines' disks "
         "(checkpoint.use_node_local_storage), where the newest is taken without a comparison of its digests");
  const auto& fp16 = config.fp16;
  const double first_scale = std::ldexp(1.0, static_cast<int>(fp16.initial_scale_power));
  if (fp16.enabled && fp16.loss_scale == 0 && fp16.min_loss_scale > first_scale)
    warn("fp16.min_loss_scale",
         fmt::format(
             "{:g} is above the first loss scale, which is {:g} (fp16.initial_scale_power): an overflow raises the "
             "scale to it, and the steps before the first overflow have a smaller one",
             fp16.min_loss_scale, first_scale));
  const auto& log = config.comms_logger;
  if (log.enabled && !log.prof_all && log.prof_ops.empty())
    warn("comms_logger.prof_all", "false: no collective is logged, because comms_logger.prof_ops is empty");
}

}  // namespace

void idle_rules(const settings& given, const job_config& config, reporter& report) {
  std::vector<const key_switch*> told;
  for (const auto& [key, s] : given.given) {
    if (!given.refused.empty()) break;  // a key's switch may have a refused value, which `config` does not have
    if (s.value == nullptr || s.held_back || s.row->support.acts != effect::acts) continue;
    if (is_default(*s.row, *s.value)) continue;
    if (const auto* const missing = missing_switch(given, config, s)) {
      // A section with groups has many keys without effect: only the first of them causes a warning.
      const bool has_groups = missing->key.starts_with("compression_training.");
      if (has_groups && std::ranges::find(told, missing) != told.end()) continue;
      told.push_back(missing);
      report.warn(s.name_at, key,
                  fmt::format("no effect: {} is not given{}", missing->key, unless_launched(given, missing->key)));
      continue;
    }
    if (!is_told(*s.row) || is_off_on_purpose(given, *s.row)) continue;
    // A key that the chosen optimizer or curve does not read is refused, or has a warning of its own.
    if (s.row->section() == "optimizer.params" && !s.row->read_by(core::name_of(config.optimizer.type))) continue;
    if (s.row->section() == "scheduler.params" && !s.row->read_by(core::name_of(config.scheduler.type))) continue;
    if (const std::string why = idle(*s.row, config); !why.empty())
      report.warn(s.name_at, key, fmt::format("no effect: {}{}", why, unless_launched(given, key)));
  }
  behind_the_end(given, config, report);
  without_ties(given, config, report);
  narrowed(given, config, report);
  retention(given, config, report);
}

}  // namespace troupe::config
