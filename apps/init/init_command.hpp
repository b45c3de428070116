// `troupe init FILE`: a job's file to begin with. Owns the options, the questions and the writing; what stands in the
// file is first_job.hpp's.
#pragma once

#include "apps/init/first_job.hpp"

namespace CLI {
class App;
}

namespace troupe::apps {

class init_command {
 public:
  /// Adds `init`; `parent` outlives this object, which does not move.
  explicit init_command(CLI::App& parent);
  init_command(const init_command&) = delete;
  init_command& operator=(const init_command&) = delete;

  /// After parsing: whether it was asked for; then does it and gives the exit status.
  [[nodiscard]] bool chosen() const;
  int run();

 private:
  CLI::App* command_;
  first_job_answers answers_;
  std::string spill_, from_, file_ = "job.yaml";
  bool force_ = false;
};

}  // namespace troupe::apps
