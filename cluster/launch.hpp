// Starts the processes of a job, watches and reaps them: executes the actions that supervision.hpp returns. Owns the
// processes of this machine and the links to the agents of other machines (agent.hpp). Leaves every decision to
// supervision.hpp, and the program's signals to the program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/link.hpp"
#include "cluster/supervised_job.hpp"

namespace troupe::cluster {

struct arrival {  ///< a connected agent of another machine: the name of that machine, and the link to the agent
  std::string host;
  std::unique_ptr<polled_link> link;
};

class arrivals {  ///< listens for agents of other machines, and returns those that have connected
 public:
  virtual ~arrivals() = default;
  /// Returns a descriptor that is readable when an agent has connected.
  [[nodiscard]] virtual int number() const = 0;
  virtual std::vector<arrival> take() = 0;
};

/// Progress of a job, by which a host decides whether another machine may have to lead the job
struct job_standing {
  bool has_run = false;       ///< true if some term of the job has begun its steps (supervision::has_run)
  bool misses_hosts = false;  ///< true if machines that could lead the job are missing (supervision::misses_hosts)
};

struct launch_options {  ///< the job that launch() runs, and how it starts the job's processes
  supervised_job job;
  /// Path of the program that every process runs; the process finds its link as in process.hpp.
  std::filesystem::path program;
  std::vector<std::string> arguments;  ///< arguments of every process; the first is the program's name
  std::function<void(const std::string&)> say;
  /// Non-blocking signalfd of the signals that are passed on to the leading process; null: none.
  shared_descriptor signals{};
  arrivals* agents = nullptr;  ///< source of agents that connect, for a job on several machines; null: one machine
  /// Descriptor that is readable when another machine leads the job: then all processes of this machine are killed, and
  /// the launcher returns. Null: this machine leads until the end.
  shared_descriptor replaced{};
  std::function<void(const job_standing&)> watch{};  ///< called on every pass of the loop; null: not called
  /// Arguments for the agents, and the text of the file that one of them names. This machine's processes get the same,
  /// instead of `arguments`: a process that is started again reads the same text as all others, even if the file has
  /// changed. Without a text each process reads the file that `arguments` name.
  job_order order{};
};

/// Nanoseconds that processes may take to end after the job is over; then they are killed.
inline constexpr int64_t ending_ns_max = 5'000'000'000;
/// Nanoseconds that the launcher waits, after the job is over, for lost machines to reconnect and receive the end; a
/// signal ends the wait.
inline constexpr int64_t coming_back_ns_max = 3'000'000'000;

/// Runs the job to its end and returns its exit code. Errors: bad_input, for invalid options, before any process is
/// started; limit, if the system refuses a process or a link; peer_lost, if another machine leads the job now: no
/// process is left here.
core::result<int> launch(const launch_options& options);

}  // namespace troupe::cluster
