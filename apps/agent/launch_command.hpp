// `troupe launch --hostfile F FILE`: one job on the machines of a DeepSpeed hostfile, started by ssh. Owns the options
// and what is started where; the filters are hostfile.hpp's, what follows for the job launched_job.hpp's.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/launch/remote.hpp"

namespace troupe::apps {

class launch_command {
 public:
  /// Adds `launch`; `parent` outlives this object, which does not move.
  explicit launch_command(CLI::App& parent);
  launch_command(const launch_command&) = delete;
  launch_command& operator=(const launch_command&) = delete;

  [[nodiscard]] bool chosen() const { return command_->parsed(); }
  /// `programs`: the folder of this installation's. Exit codes: the job's; 2 bad input; 1 where a host cannot be
  /// reached.
  [[nodiscard]] int run(const std::filesystem::path& programs) const;

 private:
  CLI::App* command_;
  std::string hostfile_, include_, exclude_, leader_, program_;
  uint16_t port_ = 29'500;
  ssh_options ssh_;
};

}  // namespace troupe::apps
