// Owns `troupe launch --hostfile F FILE`, which starts one job on the machines of a DeepSpeed hostfile by ssh: its
// options, and the command line of each machine. Leaves the filters of hosts to hostfile.hpp, and the job's settings to
// launched_job.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "apps/base/program_command.hpp"
#include "apps/launch/remote.hpp"

namespace troupe::apps {

class launch_command : public program_command {
 public:
  /// Adds `launch`; `parent` must outlive this object, which must not be moved.
  explicit launch_command(CLI::App& parent);

  /// Runs the job. `programs` is the folder of this installation's programs. Exit codes: the job's; 2 bad input; 1 if a
  /// host cannot be reached.
  [[nodiscard]] int run(const std::filesystem::path& programs) const;

 private:
  std::string hostfile_, include_, exclude_, leader_, program_;
  uint16_t port_ = 29'500;
  ssh_options ssh_;
};

}  // namespace troupe::apps
