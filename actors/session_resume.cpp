// Going on from a checkpoint of any format. Owns what the numbers of another run mean in this one; tensors are
// checkpoint_load.hpp's.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "actors/checkpoint_load.hpp"
#include "actors/session_parts.hpp"
#include "checkpoint/open_source.hpp"

namespace troupe::actors {
namespace {

using core::error_kind;
using core::fail;

/// What a run must share with the checkpoint that it goes on from; what the checkpoint does not say goes to `unknown`.
core::result<void> check_same_run(const checkpoint::tensor_source& from, uint64_t seed, uint64_t position,
                                  std::vector<std::string>& unknown) {
  const auto& run = from.run;
  const auto differs = [&](const char* what, uint64_t wanted, uint64_t got) {
    return fail(error_kind::mismatch, fmt::format("'{}': {}: wanted {}, as in this run, the checkpoint has {}",
                                                  from.folder.string(), what, wanted, got));
  };
  // The order of samples and the dropout masks hang on both: with others this would be another run.
  if (run.seed && *run.seed != seed) return differs("seed", seed, *run.seed);
  if (!run.seed) unknown.push_back(fmt::format("its seed: {} is taken", seed));
  if (run.samples && *run.samples != position)
    return differs("the position in the data (steps done times samples of a step)", position, *run.samples);
  if (!run.samples) unknown.push_back(fmt::format("its position in the data: sample {} is taken", position));
  return {};
}

}  // namespace

core::result<void> session::parts::resume(const std::filesystem::path& path, load_options options) {
  const auto say = [this](const std::string& line) {
    if (hooks.on_warning) hooks.on_warning(line);
  };
  const auto from = checkpoint::open_source(
      path, {.tag = options.tag, .fallback_to_previous = options.fallback_to_previous, .say = say});
  if (!from) return fail(from.error());
  const auto& run = from->run;
  const auto folder = from->folder.string();
  const bool goes_on = !options.load_module_only && run.steps.has_value();
  std::vector<std::string> unknown;
  if (goes_on)
    if (auto ok = check_same_run(*from, plan.config->seed, *run.steps * data.shape.global_rows(), unknown); !ok)
      return ok;
  if (!options.load_from_fp32_weights)
    options.load_from_fp32_weights = plan.config->zero_optimization.load_from_fp32_weights;
  const auto loaded = load_tensors(*from, memory, *plan.optimizer, options);
  if (!loaded) return fail(loaded.error());
  if (loaded->missing > 0)
    say(fmt::format("'{}': {} parameters keep their first values, as {}", folder, loaded->missing,
                    loaded->first_missing));
  if (options.load_module_only) return {};
  if (!goes_on) {
    say(fmt::format("'{}' holds weights alone: the run begins at step 0 with them", folder));
    return {};
  }
  const bool wants_states = options.load_optimizer_states;
  if (wants_states && !loaded->states) unknown.push_back("the optimizer's states, which begin afresh");
  steps = *run.steps;
  const uint64_t updates = run.applied_updates.value_or(*run.steps);
  applied = loaded->states ? updates : 0;
  if (options.load_lr_scheduler_states)
    scheduled = run.schedule_position ? static_cast<uint64_t>(std::max<int64_t>(*run.schedule_position, 0)) : updates;
  if (const auto& s = run.loss_scale; s && plan.config->fp16.enabled && wants_states)
    scale = {s->cur_scale, s->cur_iter, s->last_overflow_iter, s->cur_hysteresis};
  else if (plan.config->fp16.enabled && wants_states)
    unknown.push_back("its loss scale, which begins afresh");
  client_state = run.client_state;
  if (!unknown.empty()) say(fmt::format("'{}' ({}) does not say {}", folder, from->format, fmt::join(unknown, "; ")));
  return {};
}

}  // namespace troupe::actors
