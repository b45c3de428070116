// Who has started this program and as which of how many, as launchers say it in the environment: torchrun and others
// of its kind, srun, mpirun, Flux, PALS, an indexed job of Kubernetes, `troupe launch`. Owns the variables of each;
// what follows for a job is launched_job.hpp's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::apps {

using environment = std::map<std::string, std::string>;
/// This program's, and `HOSTNAME` as the system has it.
environment own_environment();
/// As the system has it; "localhost" where it does not say.
std::string own_host_name();

struct launch_place {
  std::string launcher;              ///< for people: "torchrun", "srun"
  std::string told_by;               ///< the variable that says how many there are
  uint32_t node = 0;                 ///< this machine
  uint32_t nodes = 1;                ///< 0: the launcher does not say
  uint32_t local_rank = 0;           ///< of this machine's tasks; 0 acts for all of them
  uint32_t tasks = 1;                ///< programs started, on all machines; 0: as many as machines
  std::vector<uint32_t> tasks_of{};  ///< [node]; empty: the launcher does not say
  std::vector<std::string> names{};  ///< [node]; empty: the launcher does not say
  std::string leader{};              ///< the first machine, by name or address; empty: the launcher does not say
  uint16_t port = 0;                 ///< there; 0: the launcher does not say

  bool tasks_are_ranks = false;  ///< also where there is one on each machine

  /// One program on each machine, which may have several ranks.
  [[nodiscard]] bool is_one_each() const { return !tasks_are_ranks && (tasks == 0 || tasks == nodes); }
};

/// Nothing where no launcher has started this program, or one that has started it alone. Errors: bad_input, by the name
/// of the variable.
core::result<std::optional<launch_place>> read_launch_place(const environment& given);

}  // namespace troupe::apps
