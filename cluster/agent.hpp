// The agent of a machine: starts processes there, watches and reaps them, and passes on what they and the supervisor on
// the first machine say to each other: the hands of agent_state.hpp. Owns the processes of this machine and the link;
// what becomes of the job is the supervision's.
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
  std::filesystem::path program;  ///< of every process
  std::function<void(const std::string&)> say;
  /// A signalfd, not blocking, of the signals that end the whole job; null: none.
  shared_descriptor signals{};
  /// What this machine has to say to a question of `troupe doctor`, before there is a job. It may take seconds.
  std::function<std::string(const std::string&)> answer{};
  /// Is told the job once a term of it with ranks on this machine has begun.
  std::function<void(const job_order&)> on_begun{};
};

/// The job's file in memory of this process. Errors: limit.
core::result<shared_descriptor> file_of(const job_order& order);

/// The order's arguments, of which one names that memory; programs started from now on know the user's name for it. As
/// they are where the system has no /proc.
std::vector<std::string> arguments_with(const job_order& order, const shared_descriptor& file);

/// Serves one job until it is over, and gives its exit code; nothing where it was let go before there was one. Errors:
/// peer_lost, where the first machine is gone or silent for `cluster.lost_after`; then no process is left here, and the
/// caller may join again. limit, where the system refuses a process.
core::result<std::optional<int>> serve_as_agent(polled_link& supervisor, const agent_options& options);

}  // namespace troupe::cluster
