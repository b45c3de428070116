// The checkpoints of a run from the command line: where they lie, when one is written, which stay. The session writes
// and reads them.
#pragma once

#include <filesystem>

#include "actors/session.hpp"
#include "config/job_config.hpp"

namespace troupe::apps {

class checkpoints {
 public:
  /// `configuration` goes into every checkpoint as it is.
  checkpoints(const config::job_config& config, std::string configuration);

  /// Removes what a crash left half-written, and says so through `say`. Then where to go on from; empty where the run
  /// begins, or keeps no checkpoints.
  core::result<std::filesystem::path> prepare(const std::function<void(const std::string&)>& say) const;
  /// After a step: writes one when it is time, or `at_end`, unless this step has one; removes those that need not stay.
  core::result<void> after_step(actors::session& s, bool at_end);

 private:
  std::filesystem::path root_;
  config::checkpoint_section when_;
  std::string configuration_;
  uint64_t saved_step_ = 0;
};

}  // namespace troupe::apps
