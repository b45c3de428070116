// Warns about keys that are given, and that other keys leave without effect. Leaves the reasons to keys/idle.cpp, which
// `explain` shows for all keys; only keys of the sections named here, which no other rule warns about, cause a warning.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "config/keys/idle.hpp"
#include "config/keys/values.hpp"
#include "config/rules/resolve.hpp"

namespace troupe::config {
namespace {

/// Warns about checkpoints that are kept by rules which match none, or few, of those that the run saves.
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

}  // namespace

void idle_rules(const settings& given, const job_config& config, reporter& report) {
  constexpr std::string_view sections[] = {"activation_checkpointing", "evaluation", "pipeline", "telemetry"};
  for (const auto& [key, s] : given.given) {
    if (s.value == nullptr || s.held_back || s.row->support.acts != effect::acts) continue;
    if (std::ranges::find(sections, s.row->section()) == std::end(sections) || is_default(*s.row, *s.value)) continue;
    if (const std::string why = idle(*s.row, config); !why.empty())
      report.warn(s.name_at, key, fmt::format("no effect: {}", why));
  }
  retention(given, config, report);
}

}  // namespace troupe::config
