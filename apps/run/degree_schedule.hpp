// Owns the degrees of `troupe train --degrees`: the run's data-parallel degrees in order, the configuration for each,
// and which one is due at a step. Leaves the change to the session.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/session/session.hpp"
#include "apps/base/configuration.hpp"
#include "job/feasible_degree.hpp"

namespace troupe::apps {

class degree_schedule {
 public:
  /// Reads the degrees for a file that was loaded as `loaded` without errors. Everything that could be refused later is
  /// refused here and printed to stderr; then returns nothing. An empty text means the file's own degree. If `is_said`
  /// is false, another process has printed the warnings about the first degree and about changes after the last step.
  static std::optional<degree_schedule> read(const std::string& text, const common_arguments& a,
                                             std::optional<uint64_t> steps, const config::loaded& loaded, bool is_said);

  [[nodiscard]] bool is_empty() const { return changes_.empty(); }
  /// Returns the configuration that the run begins with; requires a schedule that is not empty.
  [[nodiscard]] const config::loaded& first() const { return *loaded_.front(); }
  /// Returns the configuration at the data-parallel degree that the file itself has. The schedule's other degrees
  /// divide the global batch of this configuration. Null for an empty schedule.
  [[nodiscard]] std::shared_ptr<const config::job_config> file() const { return file_; }
  /// Changes to the degree that is due; called before a step. Returns a line about the change, or an empty one if there
  /// was none.
  core::result<std::string> change(actors::session& s);
  /// Returns a sentence such as "3 -> 2 -> 3 ranks at steps 0, 20, 34" for a run that has done `steps` steps; a change
  /// takes place when a step follows it.
  [[nodiscard]] std::string sentence(uint64_t steps) const {
    return job::as_sentence(changes_, steps - std::min<uint64_t>(steps, 1),
                            job::ranks_of_replica(first().config.parallel));
  }

 private:
  std::vector<job::degree_change> changes_;
  std::shared_ptr<const config::job_config> file_;
  std::vector<std::shared_ptr<const config::loaded>> loaded_;  // [change]: configuration after the change of degrees
  size_t now_ = 0;
};

}  // namespace troupe::apps
