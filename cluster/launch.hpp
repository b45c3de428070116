// Starts the processes of a job, watches and reaps them: the hands of supervision.hpp. Owns those of this machine and
// the links to the agents of others (agent.hpp); every decision is the supervision's, and the program's signals are the
// program's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/link.hpp"
#include "cluster/supervision.hpp"

namespace troupe::cluster {

struct arrival {  ///< an agent that has come
  std::string host;
  std::unique_ptr<polled_link> link;
};

class arrivals {  ///< the agents of other machines, as they come
 public:
  virtual ~arrivals() = default;
  /// A descriptor that is readable when somebody has come.
  [[nodiscard]] virtual int number() const = 0;
  virtual std::vector<arrival> take() = 0;
};

struct job_standing {         ///< of a job that another host may have to lead
  bool has_run = false;       ///< steps have been done, or were about to be
  bool misses_hosts = false;  ///< supervision::misses_hosts
};

struct launch_options {  ///< a job and how its processes are started
  supervised_job job;
  std::filesystem::path program;       ///< of every process; it finds its link as process.hpp says
  std::vector<std::string> arguments;  ///< the first is the program's name
  std::function<void(const std::string&)> say;
  /// A signalfd, not blocking, of the signals that go on to the process that leads; null: none.
  shared_descriptor signals{};
  arrivals* agents = nullptr;  ///< of a job on several machines
  /// Readable once another host leads the job: then everything ends here. Null: this one leads to the end.
  shared_descriptor replaced{};
  std::function<void(const job_standing&)> watch{};  ///< again and again; null: nobody asks
  /// For them: arguments, and the text of the file that one of them names. This machine's processes get the same,
  /// instead of `arguments`: one that is started again reads what the others have read, whatever became of the file.
  /// Without a text each process reads the file that `arguments` name.
  job_order order{};
};

/// How long processes may take to end once the job is over; then they are killed.
inline constexpr int64_t ending_ns_max = 5'000'000'000;
/// For so long a host that was lost may come back to hear that the job is over; a signal ends the wait.
inline constexpr int64_t coming_back_ns_max = 3'000'000'000;

/// Runs the job to its end and gives its exit code. Errors: bad_input, for options that no job has, before anything is
/// started; limit, where the system refuses a process or a link;
/// peer_lost, where another host leads the job now: no process is left here.
core::result<int> launch(const launch_options& options);

}  // namespace troupe::cluster
