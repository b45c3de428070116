// `troupe train --degrees`: the run's data degrees one after the other, each with the configuration that the file would
// have with it. Owns which is due; the session changes them.
#pragma once

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
  /// Of a file that is good as `loaded`: everything that could be refused later is refused here, said on stderr. None
  /// then. Without a text: the file's own degree. Where `is_said` is false, what the file with the first degree is
  /// warned about has been said by another process.
  static std::optional<degree_schedule> read(const std::string& text, const common_arguments& a,
                                             std::optional<uint64_t> steps, const config::loaded& loaded, bool is_said);

  [[nodiscard]] bool is_empty() const { return changes_.empty(); }
  /// What the run begins with; not of an empty one.
  [[nodiscard]] const config::loaded& first() const { return *loaded_.front(); }
  /// The job at the file's own degree, whose batch the others cut; null of an empty one.
  [[nodiscard]] std::shared_ptr<const config::job_config> file() const { return file_; }
  /// Before a step: the degrees that are due. A line of what was done, where something was.
  core::result<std::string> change(actors::session& s);
  /// "3 -> 2 -> 3 ranks at steps 0, 20, 34"
  [[nodiscard]] std::string sentence(uint64_t steps) const {
    return job::as_sentence(changes_, steps, job::ranks_of_replica(first().config.parallel));
  }

 private:
  std::vector<job::degree_change> changes_;
  std::shared_ptr<const config::job_config> file_;
  std::vector<std::shared_ptr<const config::loaded>> loaded_;  // [change]
  size_t now_ = 0;
};

}  // namespace troupe::apps
