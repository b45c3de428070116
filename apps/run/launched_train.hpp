// `troupe train` as a launcher starts it, several times: what its file and the environment say together, once for the
// program that a user starts and once for the one that speaks with other machines.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/launch/launched_job.hpp"
#include "config/load.hpp"

namespace troupe::apps {

struct launched_train {
  launched_job job;
  std::optional<config::loaded> file;  ///< of agents: with what follows from the environment
  std::vector<std::string> arguments;  ///< the command, with further --set
};

/// Nothing where no launcher has started this, or where the command is wrong in a way that has nothing to do with it.
/// An error's text is for stderr as it stands.
core::result<std::optional<launched_train>> launched_train_of(int argc, char** argv);

/// The same where somebody else says who starts what.
core::result<std::optional<launched_train>> launched_train_at(const launch_place& place, int argc, char** argv);

/// Executes a program with other arguments; returns where that fails.
void execute(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace troupe::apps
