// Owns `troupe init FILE`, which writes a first job file: its options, its questions and the writing. Leaves the
// content to first_job.hpp.
#pragma once

#include "apps/init/first_job.hpp"

namespace CLI {
class App;
}

namespace troupe::apps {

class init_command {
 public:
  /// Adds `init`; `parent` must outlive this object, which must not be moved.
  explicit init_command(CLI::App& parent);
  init_command(const init_command&) = delete;
  init_command& operator=(const init_command&) = delete;

  /// True, after parsing, if the command line chose this command; run() then executes it and returns the exit code.
  [[nodiscard]] bool chosen() const;
  int run();

 private:
  CLI::App* command_;
  first_job_answers answers_;
  std::string spill_, from_, file_ = "job.yaml";
  bool force_ = false;
};

}  // namespace troupe::apps
