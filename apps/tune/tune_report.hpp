// The result of `troupe tune` as text, JSON and YAML. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/tune/priced_settings.hpp"
#include "apps/tune/trial.hpp"

namespace troupe::apps {

struct tried_setting {
  priced_setting setting;
  trial_result result;
  bool is_own = false;
  /// True if the trial gave a step time.
  [[nodiscard]] bool is_measured() const { return result.step_s > 0 && result.failure.empty(); }
};

struct tuned {
  std::string file;
  tuned_step step;
  uint64_t memory_limit_bytes = 0;
  std::string rates;               ///< where the rates of predictions come from
  std::vector<std::string> notes;  ///< sentences about the search: a calibration, keys that were not varied
  std::vector<std::string> base;   ///< overrides that all settings share: degrees in place of `auto`
  priced_settings priced;
  std::vector<tried_setting> tried;  ///< the file's own first
  bool stopped = false;              ///< true: the user stopped before all trials
  double seconds = 0;                ///< duration of the command
};

/// Returns the index in `tried` of the fastest measured setting; nullopt: none was measured.
std::optional<size_t> fastest_of(const std::vector<tried_setting>& tried);

/// Returns the keys of the fastest setting as YAML to paste into the job; a comment alone if the file needs none, or if
/// nothing was measured.
std::string yaml_of(const tuned& all);

std::string tuned_as_text(const tuned& all);
std::string tuned_as_json(const tuned& all);

}  // namespace troupe::apps
