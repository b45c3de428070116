// Runs a Slurm on this machine: munged, slurmctld and a slurmd for each of the nodes n1 and n2, as ordinary processes
// with all files in one folder. Owns the processes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/apps/process.hpp"

namespace troupe::tests {

class local_slurm {
 public:
  /// Returns what this machine lacks to run Slurm; empty if it lacks nothing.
  static std::string missing();

  /// Starts the daemons and returns when both nodes wait for work. Throws on failure.
  explicit local_slurm(const std::filesystem::path& folder);
  /// Ends the daemons.
  ~local_slurm();
  local_slurm(const local_slurm&) = delete;
  local_slurm& operator=(const local_slurm&) = delete;
  /// Returns the command line of a program that uses this Slurm, such as srun.
  [[nodiscard]] std::vector<std::string> command(const std::string& program,
                                                 const std::vector<std::string>& arguments) const;

 private:
  std::unique_ptr<process> start(const std::string& program, const std::vector<std::string>& arguments) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<process>> all_;
};

}  // namespace troupe::tests
