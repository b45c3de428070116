// Plans and prices the settings that `troupe tune` compares, and chooses those that are tried. Each one is loaded as
// `troupe plan` loads a job; what the loader or the plan refuses is counted by reason.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/base/configuration.hpp"
#include "apps/tune/tune_constants.hpp"
#include "core/error.hpp"
#include "job/blueprint.hpp"

namespace troupe::apps {

/// A setting as the overrides that it adds to the job.
struct offered_setting {
  std::vector<std::string> set;
  std::string family;  ///< settings of one family differ only in sizes of buckets
};

struct priced_setting : offered_setting {
  double predicted_s = 0;     ///< of a step, all ranks on the cores of this machine
  uint64_t memory_bytes = 0;  ///< planned memory of all ranks, activations included
  std::string refusal;        ///< why the setting cannot be planned; empty: it can
};

/// Settings that are refused for one reason.
struct refused_settings {
  std::string why;  ///< the sentence of the first
  uint64_t count = 0;
};

struct priced_settings {
  priced_setting own;                     ///< the file's own setting
  std::vector<priced_setting> fitting;    ///< the other ones that fit the memory, fastest first
  std::vector<priced_setting> exceeding;  ///< that exceed the memory, least memory first; the file's own is not in it
  std::vector<refused_settings> refused;  ///< most frequent reason first
  uint64_t compared = 0;                  ///< number of settings, the file's own included
  bool stopped = false;                   ///< true: some settings were not planned, because the user stopped
};

/// The number of tokens of a step, by which settings are compared.
struct tuned_step {
  uint64_t ranks = 1, samples = 1, tokens_of_sample = 1;
};

/// Plans the job `job`. Returns one sentence for each thing that is wrong with it.
tl::expected<job::blueprint, std::vector<std::string>> planned_job(const common_arguments& job,
                                                                   const tune_constants& constants);

/// Returns a planned job's price.
priced_setting priced(offered_setting offered, const job::blueprint& planned);

/// Plans the offered settings of a job whose own one is priced already. `stops` is called before each.
priced_settings price_settings(const common_arguments& job, const tune_constants& constants, const tuned_step& step,
                               priced_setting own, const std::vector<offered_setting>& offered,
                               uint64_t memory_limit_bytes, const std::function<bool(uint64_t planned)>& stops);

/// Counts reasons that differ only in their numbers as one.
class refusal_count {
 public:
  void add(const std::string& why);
  /// Returns the reasons, the most frequent one first.
  [[nodiscard]] std::vector<refused_settings> sorted() const;

 private:
  std::map<std::string, refused_settings> all_;  // [sentence without its numbers]
};

/// Returns the settings to try beside the file's own, the fastest first: `all` of them, or `most`. Then one of each
/// family is taken, and none that is predicted to take the same time and memory as another one or as the file's own,
/// because its plan is most likely the same.
std::vector<priced_setting> settings_to_try(const priced_settings& from, uint64_t most, bool all);

}  // namespace troupe::apps
