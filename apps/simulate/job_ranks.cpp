#include "apps/simulate/job_ranks.hpp"

#include <string>
#include <utility>
#include <vector>

#include "apps/base/exit_code.hpp"
#include "apps/simulate/candidate.hpp"

namespace troupe::apps {
std::optional<config::loaded> load_with_ranks(const simulate_arguments& a, std::optional<config::job_config>& before) {
  if (a.ranks == 0) return load_configuration(a, std::nullopt, intent::plan);
  common_arguments job_of = a;
  const auto loaded = load_configuration(job_of, std::nullopt, intent::plan, config::reading::job, {}, false);
  if (!loaded) {
    if (const auto alone = before_ranks(job_of, a.ranks)) {
      const auto more = overrides_for(*alone, a.ranks);
      if (!more) {
        static_cast<void>(failed(more.error()));
        return std::nullopt;
      }
      job_of.set.insert(job_of.set.end(), more->begin(), more->end());
    }
    return load_configuration(job_of, std::nullopt, intent::plan);  // says what is wrong, if something is
  }
  const auto more = overrides_for(*loaded, a.ranks);
  if (!more) {
    static_cast<void>(failed(more.error()));
    return std::nullopt;
  }
  before = loaded->config;
  job_of.set.insert(job_of.set.end(), more->begin(), more->end());
  return load_configuration(job_of, std::nullopt, intent::plan);
}

}  // namespace troupe::apps
