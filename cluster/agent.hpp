// Runs the agent of a machine: starts the job's processes on that machine, watches and reaps them, and passes messages
// between them and the supervisor, which runs on the first machine. Executes the actions that agent_state.hpp returns.
// Owns these processes and the link to the supervisor; leaves decisions about the job to supervision.hpp.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cluster/link.hpp"
#include "cluster/messages.hpp"

namespace troupe::cluster {

struct agent_options {
  std::filesystem::path program;  ///< path of the program that every process of the job runs
  std::function<void(const std::string&)> say;
  /// Non-blocking signalfd of the signals that an agent handles, such as those that end the whole job; null: none.
  shared_descriptor signals{};
  /// Function that returns this machine's answer to a question of `troupe doctor`, before there is a job. A call may
  /// take seconds.
  std::function<std::string(const std::string&)> answer{};
  /// Called with the job when the first term with ranks on this machine has begun.
  std::function<void(const job_order&)> on_begun{};
};

/// Returns a descriptor of the job's configuration file, which is kept in memory. Errors: limit.
core::result<shared_descriptor> file_of(const job_order& order);

/// Returns the order's arguments; the one with the configuration file's path is replaced by the path of `file`, which
/// has the file's text in memory. Sets an environment variable from which programs that are started later learn the
/// path that the user knows. On a system without /proc the arguments are unchanged.
std::vector<std::string> arguments_with(const job_order& order, const shared_descriptor& file);

/// Serves one job until it is over and returns its exit code; returns nothing if the supervisor dismissed the agent
/// before there was a job. Errors: peer_lost, if the first machine is gone or silent for `cluster.lost_after`: all
/// processes of the job on this machine have been killed, and the caller may join again. limit, if the system refuses a
/// process.
core::result<std::optional<int>> serve_as_agent(polled_link& supervisor, const agent_options& options);

}  // namespace troupe::cluster
