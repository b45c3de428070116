#include "apps/run/changed_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "config/document/document.hpp"
#include "config/explain.hpp"

namespace troupe::apps {
namespace {

using values = std::map<std::string, std::string>;

/// Adds the values below a node by their dotted keys; a list is one value.
void add_values(const config::node& from, const std::string& key, values& out) {
  if (from.kind != config::node_kind::mapping) {
    constexpr size_t characters_max = 200;
    if (from.kind != config::node_kind::null) out.emplace(key, config::shown(from, characters_max));
    return;
  }
  for (const auto& e : from.entries) add_values(*e.value, key.empty() ? e.name : key + "." + e.name, out);
}

values values_of(const std::string& yaml) {
  values out;
  if (const auto read = config::read_yaml(yaml, 0); read.root != nullptr) add_values(*read.root, {}, out);
  return out;
}

bool decides_training(std::string_view key) {
  constexpr std::string_view keys[] = {"model.",
                                       "optimizer.",
                                       "scheduler.",
                                       "parameter_groups",
                                       "gradient_clipping",
                                       "fp16.",
                                       "bf16.",
                                       "data_types.",
                                       "data.document_mask",
                                       "data.masking.",
                                       "data.sequence_length",
                                       "data.loss_on",
                                       "data.chat_template",
                                       "data.packing",
                                       "loss.",
                                       "lora.",
                                       "ema.",
                                       "compression_training.",
                                       "distillation."};
  return std::ranges::any_of(keys, [&](std::string_view k) { return key.starts_with(k); });
}

}  // namespace

std::vector<std::string> changed_keys(const std::string& was, const config::loaded& now) {
  values before = values_of(was), after = values_of(config::effective_yaml(now));
  if (before.empty()) return {};
  // The effective configuration states these keys only if they have a value.
  for (auto* one : {&before, &after})
    for (const char* key : {"scheduler.type", "parameter_groups"}) one->emplace(key, "none");
  // A learning-rate curve whose length is the number of steps of the run in both configurations is not compared,
  // because it differs only if that number does.
  const auto spans_run = [](const values& v, const char* key) {
    const auto at = v.find(key), steps = v.find("steps");
    return at != v.end() && steps != v.end() && at->second == steps->second;
  };
  for (const char* key : {"scheduler.params.total_num_steps", "scheduler.params.T_max"})
    if (spans_run(before, key) && spans_run(after, key)) after.erase(key);
  std::vector<std::string> out;
  for (const auto& [key, value] : after)
    if (const auto at = before.find(key); decides_training(key) && at != before.end() && at->second != value)
      out.push_back(fmt::format("{} is {}, was {}", key, value, at->second));
  return out;
}

std::string shown_changes(const std::vector<std::string>& changed) {
  constexpr size_t shown_max = 5;
  const size_t shown = std::min(shown_max, changed.size());
  return fmt::format("{}{}", fmt::join(changed.begin(), changed.begin() + ptrdiff_t(shown), "; "),
                     changed.size() > shown ? fmt::format(" and {} more", changed.size() - shown) : "");
}

core::result<void> check_same_job(const std::string& was, const std::filesystem::path& from, uint64_t step,
                                  const config::loaded& now) {
  const auto changed = changed_keys(was, now);
  if (changed.empty()) return {};
  return core::refused(fmt::format(
      "nothing is left to train: '{}' is of step {}, the run has {}, but it is of a run with other settings: {}; set "
      "another output for another job, more --steps to continue with these settings, or --fresh to begin anew",
      from.string(), step, now.config.steps, shown_changes(changed)));
}

}  // namespace troupe::apps
