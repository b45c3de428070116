// Owns `troupe init FILE`, which writes a first job file: its options, its questions and the writing. Leaves the
// content to first_job.hpp.
#pragma once

#include "apps/base/program_command.hpp"
#include "apps/init/first_job.hpp"

namespace troupe::apps {

class init_command : public program_command {
 public:
  /// Adds `init`; `parent` must outlive this object, which must not be moved.
  explicit init_command(CLI::App& parent);

  /// Executes the command and returns the exit code.
  int run();

 private:
  first_job_answers answers_;
  std::string spill_, from_, file_ = "job.yaml";
  bool force_ = false;
};

}  // namespace troupe::apps
