// Rules of samples that are left out (`data.skip`), and of the reaction to a spike of the loss (`on_spike`). Leaves the
// meaning of steps and samples to data/.
#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "config/rules/resolve.hpp"
#include "core/number.hpp"

namespace troupe::config {
namespace {

constexpr uint64_t step_max = 1'000'000'000'000;

std::optional<uint64_t> step_in(std::string_view text) {
  const auto out = core::number_of<uint64_t>(text);
  return out && *out >= 1 && *out <= step_max ? out : std::nullopt;
}

/// Parses one step `900`, or a range of steps `812-820`, into `x`.
bool read_steps(skipped_steps& x) {
  const std::string_view all = x.steps;
  const size_t dash = all.find('-');
  const auto first = step_in(all.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : step_in(all.substr(dash + 1));
  if (!first || !last || *first > *last) return false;
  x.first = *first;
  x.last = *last;
  return true;
}

/// Warns if a run may have to go back further after a spike than its oldest saved state. A new checkpoint removes the
/// oldest one only when the loss of the following step is known; until then one more than checkpoint.keep_last exists.
void reach_back(const settings& given, const job_config& config, reporter& report) {
  const auto& c = config.checkpoint;
  const uint64_t back = config.on_spike.back_steps;
  if (c.keep_last == 0 || c.every_steps == 0 || c.keep_every > 0 || back < 2) return;
  if (config.cluster.is_on() && c.memory.every_steps >= back / 2) return;
  if (c.keep_last > (back - 2) / c.every_steps) return;
  report.warn(
      given.where("on_spike.back_steps"), "on_spike.back_steps",
      fmt::format("no checkpoint is that old: the last {} (checkpoint.keep_last), one every {} steps, reach back "
                  "{} steps, and {} are wanted; raise checkpoint.keep_last or set checkpoint.keep_every",
                  c.keep_last, c.every_steps, c.keep_last * c.every_steps, back));
}

}  // namespace

void skip_rules(const settings& given, job_config& config, reporter& report, purpose why) {
  const auto error = [&](const std::string& key, std::string text) {
    report.error(given.where(key), key, std::move(text));
  };
  for (size_t i = 0; i < config.data.skip.size(); ++i) {
    auto& x = config.data.skip[i];
    const std::string key = fmt::format("data.skip[{}].steps", i);
    if (given.value_of(key) != nullptr && !read_steps(x))
      error(key, fmt::format("wanted a step from 1 to {}, or a range such as 812-820, got `{}`", step_max, x.steps));
  }
  const auto& how = config.on_spike;
  if (how.action == spike_action::none) return;
  if (how.min_steps > how.window)
    error("on_spike.min_steps", fmt::format("wanted at most on_spike.window, {}, got {}", how.window, how.min_steps));
  if (!how.skips()) return;
  const std::string action = "on_spike.action";
  if (why == purpose::host_job)
    error(action, "wanted none or stop, got skip: the batches of a host program cannot be left out");
  const bool in_memory = config.cluster.is_on() && config.checkpoint.memory.every_steps > 0;
  if (why == purpose::job && !config.checkpoint.is_on() && !in_memory)
    error(action,
          "skip: requires saved states to go back to; set checkpoint.every_steps, checkpoint.every_minutes, or "
          "checkpoint.memory.every_steps with several processes");
  reach_back(given, config, report);
}

}  // namespace troupe::config
