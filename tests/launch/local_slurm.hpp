// A Slurm of its own on this machine: munged, slurmctld and a slurmd for each of its nodes n1 and n2, as ordinary
// processes with all files in one folder. Owns the processes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/apps/process.hpp"

namespace troupe::tests {

class local_slurm {
 public:
  /// What is missing on this machine for it; empty: nothing.
  static std::string missing();

  /// Both nodes wait for work when it returns. Throws.
  explicit local_slurm(const std::filesystem::path& folder);
  /// Ends its daemons.
  ~local_slurm();
  local_slurm(const local_slurm&) = delete;
  local_slurm& operator=(const local_slurm&) = delete;
  /// A command that reaches it, such as srun.
  [[nodiscard]] std::vector<std::string> command(const std::string& program,
                                                 const std::vector<std::string>& arguments) const;

 private:
  std::unique_ptr<process> start(const std::string& program, const std::vector<std::string>& arguments) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<process>> all_;
};

}  // namespace troupe::tests
