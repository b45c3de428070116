// A job on three hosts as users start it: `troupe train` on the first, an agent with a certificate of its own on each
// of the others, in network namespaces or, where none are allowed, all on loopback. What a test does to a host, and
// whether the run's losses are those of an undisturbed one. Owns the processes and their folder.
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

/// What a user writes on one machine: the program, the job's file, the keys that are set.
struct command_of_job {
  std::string troupe, file;
  std::vector<std::string> keys;
  std::string name{};  ///< its cluster.job; empty: none
  bool as_json = true;  ///< what it prints
};

/// Steps of a job that is stopped.
inline constexpr uint32_t endless = 1'000'000;

class job_on_hosts {
 public:
  static constexpr uint32_t number = 3;
  static constexpr std::array<const char*, number> names = {"a", "b", "c"};

  /// Begins the job. `network`: null where the hosts are this machine's loopback. Throws where certificates fail.
  job_on_hosts(command_of_job job, const hosts* network);

  process& first() { return *first_; }
  process& agent(uint32_t host) { return *agents_[host]; }
  [[nodiscard]] const scratch_folder& folder() const { return folder_; }
  [[nodiscard]] std::map<uint32_t, pid_t> places() const { return places_in(folder_.path()); }

  /// `troupe train` once more on the first host, as whatever watches it there starts it again.
  void start_first();
  /// The first host ends at once, with its processes.
  void kill_first();
  /// An agent for a host whose agent has ended, as whatever watches it there starts it again.
  void start_agent(uint32_t host);
  /// Once the run has ended: how its agent did. One that came too late to hear of the end waits for another run; it is
  /// told to end, and did well.
  finished end_agent(uint32_t host);
  /// Nothing passes to and from the host, or, on loopback, its processes do not run.
  void cut(uint32_t host);
  void heal(uint32_t host);

  /// `troupe stop`, of a job that has steps for as long as a test wants to look at it.
  void stop() const;

  /// How it differs from the run of one process with these degrees and as many steps; nothing where losses and norms
  /// are equal bit for bit. After the end.
  [[nodiscard]] std::optional<std::string> difference_from_twin(const std::string& degrees) const;
  /// What is left of an ended run: processes of its folder, sockets, unfinished files, named memory; empty if nothing.
  [[nodiscard]] std::string left_behind() const;

 private:
  [[nodiscard]] std::vector<std::string> train(const char* output, const std::vector<std::string>& more) const;
  [[nodiscard]] std::vector<std::string> on(uint32_t host, std::vector<std::string> command) const;
  [[nodiscard]] std::string listens_at() const;
  /// Troupe's files in /dev/shm, those of other tests that run now among them.
  static std::set<std::string> named_memory();

  command_of_job job_;
  const hosts* network_;
  const uint16_t port_ = free_port();  ///< on loopback
  const std::set<std::string> memory_before_ = named_memory();
  scratch_folder folder_;
  std::unique_ptr<process> first_;
  std::array<std::unique_ptr<process>, number> agents_;
  std::vector<pid_t> stopped_;  ///< that a cut has stopped
};

}  // namespace troupe::tests
