// Starts the processes of a job on this machine, watches and reaps them: the hands of supervision.hpp. Owns processes,
// their links and the signals that people send; every decision is the supervision's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cluster/supervision.hpp"

namespace troupe::cluster {

struct launch_options {
  supervised_job job;
  std::filesystem::path program;       ///< of every process; it finds its link as process.hpp says
  std::vector<std::string> arguments;  ///< the first is the program's name
  std::function<void(const std::string&)> say;
};

/// How long processes may take to end once the job is over; then they are killed.
inline constexpr int64_t ending_ns_max = 5'000'000'000;

/// Runs the job to its end and gives its exit code. Takes SIGINT, SIGTERM and SIGUSR1, which go to the process that
/// leads, and SIGCHLD. Call it before other threads start.
core::result<int> launch(const launch_options& options);

}  // namespace troupe::cluster
