// Enumerates the settings that `troupe tune` compares: ways to compute one global batch on the same number of ranks.
// Owns the values of each key; leaves refusals to the loader and prices to priced_settings.hpp. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Largest number of settings that are compared, since each is planned.
inline constexpr uint64_t tune_settings_max = 4096;

/// The values of the keys that are varied.
struct tune_setting {
  uint32_t data = 1, tensor = 1, pipeline = 1, sequence = 1, context = 1;
  uint64_t micro_batch = 1, micro_batches = 1;  ///< samples of a micro-batch, and micro-batches of a step
  uint32_t stage = 0;                           ///< of ZeRO
  bool recompute = false;
  std::string schedule = "1f1b";  ///< of the pipeline
  uint32_t chunks = 0;            ///< stages of a pipeline rank; 0: as many as the schedule wants
  uint64_t bucket_elements = 0;   ///< elements of a bucket of gradients

  /// Returns the number of ranks over which ZeRO may divide states.
  [[nodiscard]] uint64_t sharing_ranks() const { return uint64_t{data} * sequence * context; }
  bool operator==(const tune_setting&) const = default;
};

/// Returns the setting of a job whose degrees are numbers.
tune_setting setting_of(const config::job_config& job);

/// Returns `setting` with the degrees of `degrees`.
tune_setting with_degrees(tune_setting setting, const config::parallel_section& degrees);

/// The keys whose values are varied, in the order in which they are written.
std::vector<std::string_view> tuned_keys();

/// Returns the tuned keys that the texts `KEY=VALUE` of --set give, also by a whole section; `auto` gives none.
std::set<std::string> pinned_by(const std::vector<std::string>& set);

struct tune_space {
  tune_setting own;                ///< the file's setting
  uint64_t global_batch = 1;       ///< samples of a step on all ranks
  std::vector<tune_setting> ways;  ///< settings with the degrees to compare; their other values are not read
  uint64_t elements = 0;           ///< of the model's parameters; 0: unknown, and sizes of buckets are not varied
  std::set<std::string> pinned;    ///< tuned keys that keep the file's value
};

/// Returns all settings of a space, the file's own first. Refused: more than tune_settings_max.
core::result<std::vector<tune_setting>> settings_of(const tune_space& space);

/// Returns the overrides with which a job of setting `own` has the setting `to`: none if they are equal.
std::vector<std::string> overrides_between(const tune_setting& own, const tune_setting& to, uint64_t global_batch);

/// Returns overrides `KEY=VALUE` as YAML to paste into a job; a later one of a key replaces an earlier one.
std::string yaml_of_overrides(const std::vector<std::string>& overrides);

}  // namespace troupe::apps
