// Starts the processes of a job on this machine, watches and reaps them: the hands of supervision.hpp. Owns processes
// and their links; every decision is the supervision's, and the program's signals are the program's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cluster/supervision.hpp"

namespace troupe::cluster {

struct launch_options {  ///< a job and how its processes are started
  supervised_job job;
  std::filesystem::path program;       ///< of every process; it finds its link as process.hpp says
  std::vector<std::string> arguments;  ///< the first is the program's name
  std::function<void(const std::string&)> say;
  /// A signalfd, not blocking, of the signals that go on to the process that leads; null: none.
  shared_descriptor signals{};
};

/// How long processes may take to end once the job is over; then they are killed.
inline constexpr int64_t ending_ns_max = 5'000'000'000;

/// Runs the job to its end and gives its exit code. Errors: limit, where the system refuses a process or a link.
core::result<int> launch(const launch_options& options);

}  // namespace troupe::cluster
