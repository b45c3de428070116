// Prepares `troupe train` for a launcher, which starts it several times: combines the configuration file
// with the launcher's environment variables. Both `troupe` and `troupe-agent` use it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/launch/launched_job.hpp"
#include "config/load.hpp"

namespace troupe::apps {

struct launched_train {
  launched_job job;
  std::optional<config::loaded> file;  ///< only for agents: configuration with the launcher's settings
  /// the command line, followed by `--set` options from the launcher's environment
  std::vector<std::string> arguments;
};

/// Combines the configuration file with the environment variables of a launcher. Returns nothing without a launcher, or
/// if the arguments of the command are wrong. The text of an error is complete, with "troupe: error:" and line ends.
core::result<std::optional<launched_train>> launched_train_of(int argc, char** argv);

/// Combines the configuration file with `place`, which describes this program's part in the launch. Returns nothing if
/// the arguments are wrong, or if this program is one of several independent runs. The text of an error is complete,
/// with line ends.
core::result<std::optional<launched_train>> launched_train_at(const launch_place& place, int argc, char** argv);

/// Executes a program with other arguments; returns only if that fails.
void execute(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace troupe::apps
