// Runs Slurm on this machine: munged, slurmctld and a slurmd for each of the nodes n1 and n2, as processes of this user
// with all their files in one folder. Owns the processes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/apps/process.hpp"

namespace troupe::tests {

class local_slurm {
 public:
  /// Returns the name of a program that this machine lacks to run Slurm; empty if it lacks none.
  static std::string missing();

  /// Starts the daemons and returns when both nodes accept jobs. Throws on failure.
  explicit local_slurm(const std::filesystem::path& folder);
  /// Ends the daemons.
  ~local_slurm();
  local_slurm(const local_slurm&) = delete;
  local_slurm& operator=(const local_slurm&) = delete;
  /// Returns the command line of a program such as srun that connects to this Slurm.
  [[nodiscard]] std::vector<std::string> command(const std::string& program,
                                                 const std::vector<std::string>& arguments) const;

 private:
  std::unique_ptr<process> start(const std::string& program, const std::vector<std::string>& arguments) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<process>> all_;
};

}  // namespace troupe::tests
