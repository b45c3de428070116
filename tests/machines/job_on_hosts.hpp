// Runs a job on three hosts as users start it: `troupe train` on the first, an agent with a certificate on each of the
// others. The hosts are network namespaces, or all use loopback if the machine allows no namespaces. Tests kill, cut
// off and restart hosts, and compare the losses with those of an undisturbed run. Owns the processes and their folder.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/free_port.hpp"
#include "tests/machines/hosts.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/survive/job_of_processes.hpp"

namespace troupe::tests {

/// Command that a user types on the first host: the program, the job file, and the keys to set.
struct command_of_job {
  std::string troupe, file;
  std::vector<std::string> keys;
  std::string name{};  ///< value of the key `cluster.job`; empty: the key is not set
  bool as_json = true;  ///< true: `troupe train` gets the option --json
};

/// Number of steps for jobs that a test stops before their end.
inline constexpr uint32_t endless = 1'000'000;

class job_on_hosts {
 public:
  static constexpr uint32_t number = 3;
  static constexpr std::array<const char*, number> names = {"a", "b", "c"};

  /// Starts the job. `network` is null if all hosts use this machine's loopback. Throws if no certificates can be
  /// created.
  job_on_hosts(command_of_job job, const hosts* network);

  process& first() { return *first_; }
  process& agent(uint32_t host) { return *agents_[host]; }
  [[nodiscard]] const scratch_folder& folder() const { return folder_; }
  [[nodiscard]] std::map<uint32_t, pid_t> places() const { return places_in(folder_.path()); }

  /// Runs `troupe train` again on the first host, as a service manager would restart it.
  void start_first();
  /// Kills `troupe train` on the first host and its process with ranks (place 0) with SIGKILL.
  void kill_first();
  /// Starts an agent for a host whose agent has ended, as a service manager would restart it.
  void start_agent(uint32_t host);
  /// Ends the agent of `host` with SIGTERM after the run has ended, and returns its exit code and output. An agent that
  /// joined too late to receive the end of the run waits for another run; its exit code is reported as 0.
  finished end_agent(uint32_t host);
  /// Blocks all packets to and from the host. If all hosts use loopback, stops the host's processes with SIGSTOP.
  void cut(uint32_t host);
  void heal(uint32_t host);

  /// Runs `troupe stop`, for a job with `endless` steps. Retries while no process leads the job, for at least 10 s, and
  /// then throws.
  void stop() const;

  /// Runs the job again in one process with these degrees and the same number of steps. Returns the first difference
  /// between the two, or nothing if losses and norms are equal bit for bit.
  [[nodiscard]] std::optional<std::string> difference_from_twin(const std::string& degrees) const;
  /// Returns what an ended run has left: processes in its folder, sockets, unfinished files, named shared memory; empty
  /// if nothing is left.
  [[nodiscard]] std::string left_behind() const;

 private:
  [[nodiscard]] std::vector<std::string> train(const char* output, const std::vector<std::string>& more) const;
  [[nodiscard]] std::vector<std::string> on(uint32_t host, std::vector<std::string> command) const;
  [[nodiscard]] std::string listens_at() const;
  /// Returns the names of Troupe's files in /dev/shm, including those of other tests that run at the same time.
  static std::set<std::string> named_memory();

  command_of_job job_;
  const hosts* network_;
  const uint16_t port_ = free_port();  ///< port at which the job listens on loopback
  const std::set<std::string> memory_before_ = named_memory();
  scratch_folder folder_;
  std::unique_ptr<process> first_;
  std::array<std::unique_ptr<process>, number> agents_;
  std::vector<pid_t> stopped_;  ///< ids of the processes that cut() has stopped
};

}  // namespace troupe::tests
