#include "apps/tune/tune_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/tune/tune_space.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

using object = nlohmann::ordered_json;

/// Number of reasons of refusals that the text shows.
constexpr size_t refusals_shown_max = 5;

std::string time_text(double seconds) {
  if (!(seconds > 0)) return "-";
  return seconds < 1 ? fmt::format("{:.4g} ms", 1e3 * seconds) : fmt::format("{:.4g} s", seconds);
}

std::string memory_cell(uint64_t bytes) { return bytes == 0 ? "-" : core::human_bytes(bytes); }

std::string settings_text(const tried_setting& one) {
  const std::string set = one.is_own ? "the file's own" : fmt::format("{}", fmt::join(one.setting.set, " "));
  return core::printable_line(one.is_measured() ? set : set + ": " + one.result.failure);
}

/// Returns how much shorter the fastest step is than that of the file's own setting.
std::string gain_text(const tuned& all, size_t best) {
  const auto& fastest = all.tried[best];
  const std::string step = fmt::format("the fastest step takes {}", time_text(fastest.result.step_s));
  const auto own = std::ranges::find_if(all.tried, [](const auto& one) { return one.is_own && one.is_measured(); });
  if (own == all.tried.end()) return step + "; the file's own setting was not measured";
  if (fastest.is_own) return step + ", that of the file's own setting";
  return fmt::format("{}, {:.1f} % less than that of the file's own setting", step,
                     100 * (1 - fastest.result.step_s / own->result.step_s));
}

object trial_object(const tried_setting& one) {
  return {{"set", one.setting.set},
          {"own", one.is_own},
          {"predicted_s", one.setting.predicted_s > 0 ? object(one.setting.predicted_s) : object(nullptr)},
          {"predicted_memory_bytes", one.setting.memory_bytes},
          {"measured_s", one.is_measured() ? object(one.result.step_s) : object(nullptr)},
          {"peak_bytes", one.result.peak_bytes},
          {"seconds", one.result.seconds},
          {"failure", one.is_measured() ? object(nullptr) : object(one.result.failure)}};
}

}  // namespace

std::optional<size_t> fastest_of(const std::vector<tried_setting>& tried) {
  std::optional<size_t> out;
  for (size_t i = 0; i < tried.size(); ++i)
    if (tried[i].is_measured() && (!out || tried[i].result.step_s < tried[*out].result.step_s)) out = i;
  return out;
}

std::string yaml_of(const tuned& all) {
  const auto best = fastest_of(all.tried);
  if (!best) return "# no trial gave a step time\n";
  auto overrides = all.base;
  const auto& set = all.tried[*best].setting.set;
  overrides.insert(overrides.end(), set.begin(), set.end());
  return overrides.empty() ? "# the file's own setting is the fastest one\n" : yaml_of_overrides(overrides);
}

std::string tuned_as_text(const tuned& all) {
  const auto& p = all.priced;
  uint64_t refused = 0;
  for (const auto& one : p.refused) refused += one.count;
  std::string out = fmt::format(
      "{}: {} ranks, {} samples a step; {} settings beside the file's own: {} fit {}, {} exceed it, {} are refused\n"
      "predicted by {}\n",
      core::printable_line(all.file), all.step.ranks, all.step.samples, p.compared - 1, p.fitting.size(),
      core::human_bytes(all.memory_limit_bytes), p.exceeding.size(), refused, all.rates);
  for (const auto& note : all.notes) out += core::printable_line(note) + "\n";
  for (size_t i = 0; i < std::min(p.refused.size(), refusals_shown_max); ++i)
    out += fmt::format("refused {}: {}\n", p.refused[i].count, core::printable_line(p.refused[i].why));
  if (p.refused.size() > refusals_shown_max)
    out += fmt::format("and {} more reasons\n", p.refused.size() - refusals_shown_max);
  if (all.stopped) out += fmt::format("stopped; {} trials are known\n", all.tried.size());
  const auto best = fastest_of(all.tried);
  if (!all.tried.empty()) {
    std::vector<std::vector<std::string>> rows{{"", "predicted", "measured", "peak memory", "settings"}};
    for (size_t i = 0; i < all.tried.size(); ++i) {
      const auto& one = all.tried[i];
      rows.push_back({best && *best == i ? "*" : "", time_text(one.setting.predicted_s),
                      one.is_measured() ? time_text(one.result.step_s) : "-", memory_cell(one.result.peak_bytes),
                      settings_text(one)});
    }
    out += fmt::format("\n{}", core::aligned(rows, {false, true, true, true, false}));
  }
  if (!best) return out + "\nno trial gave a step time\n";
  return fmt::format("{}\n{}; {:.1f} s in all\n\n# to paste into the job\n{}", out, gain_text(all, *best), all.seconds,
                     yaml_of(all));
}

std::string tuned_as_json(const tuned& all) {
  const auto& p = all.priced;
  const auto best = fastest_of(all.tried);
  object trials = object::array(), refused = object::array();
  for (const auto& one : all.tried) trials.push_back(trial_object(one));
  for (const auto& one : p.refused) refused.push_back({{"why", one.why}, {"settings", one.count}});
  return object{{"format", "troupe tune"},
                {"version", 1},
                {"job", all.file},
                {"ranks", all.step.ranks},
                {"global_batch", all.step.samples},
                {"memory_limit_bytes", all.memory_limit_bytes},
                {"rates", all.rates},
                {"notes", all.notes},
                {"settings", p.compared},
                {"fitting", p.fitting.size()},
                {"exceeding", p.exceeding.size()},
                {"refused", refused},
                {"stopped", all.stopped},
                {"trials", trials},
                {"best", best ? object(*best) : object(nullptr)},
                {"yaml", yaml_of(all)},
                {"seconds", all.seconds}}
             .dump(2, ' ', false, object::error_handler_t::replace) +
         "\n";
}

}  // namespace troupe::apps
