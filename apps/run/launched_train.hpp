// Prepares `troupe train` for a launcher, which starts it several times: combines the file with the environment, for
// the program that a user starts and for the one that talks to other machines.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/launch/launched_job.hpp"
#include "config/load.hpp"

namespace troupe::apps {

struct launched_train {
  launched_job job;
  std::optional<config::loaded> file;  ///< only for agents: the file with the settings from the environment
  std::vector<std::string> arguments;  ///< the command line with further --set
};

/// Combines the file with the environment of a launcher. Returns nothing without a launcher, or if the command is wrong
/// for a reason that is not related to it. The text of an error can be printed to stderr as it is.
core::result<std::optional<launched_train>> launched_train_of(int argc, char** argv);

/// Combines the file with a given place instead of the environment's; results as for launched_train_of().
core::result<std::optional<launched_train>> launched_train_at(const launch_place& place, int argc, char** argv);

/// Executes a program with other arguments; returns only if that fails.
void execute(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace troupe::apps
