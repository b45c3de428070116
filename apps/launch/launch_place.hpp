// Reads from the environment which launcher has started this program, on how many machines, and this program's number:
// torchrun and similar ones, srun, mpirun, Flux, PALS, an indexed job of Kubernetes, `troupe launch`. Owns the
// variables of each launcher. Leaves the job's settings to launched_job.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace troupe::apps {

using environment = std::map<std::string, std::string>;
/// Returns this program's environment, with `HOSTNAME` read from the system.
environment own_environment();
/// Returns this machine's name, read from the system; "localhost" if it has none.
std::string own_host_name();

/// The position of this program among all programs that a launcher has started, as read from the launcher's variables.
struct launch_place {
  std::string launcher;              ///< name of the launcher for messages: "torchrun", "srun"
  std::string told_by;               ///< name of the environment variable that contains the number of programs
  uint32_t node = 0;                 ///< number of this machine
  uint32_t nodes = 1;                ///< number of machines; 0: unknown
  uint32_t local_rank = 0;           ///< number of this task on its machine; task 0 acts for all of them
  uint32_t tasks = 1;                ///< total number of programs started on all machines; 0: one for each machine
  std::vector<uint32_t> tasks_of{};  ///< number of tasks of each machine, by machine number; empty: unknown
  std::vector<std::string> names{};  ///< name of each machine, by machine number; empty: unknown
  std::string leader{};              ///< name or address of the first machine; empty: unknown
  uint16_t port = 0;                 ///< port at which the first machine listens; 0: unknown

  bool tasks_are_ranks = false;  ///< true if each task is a rank, even with one task per machine

  /// True if the launcher has started one program on each machine; that program may have several ranks.
  [[nodiscard]] bool is_one_each() const { return !tasks_are_ranks && (tasks == 0 || tasks == nodes); }
};

/// Returns the position of this program among the programs that a launcher has started. Returns nothing if there is no
/// launcher, or if the launcher has started this program alone. Errors: bad_input, which names the wrong variable; also
/// if variables say that several programs were started, but not which of them this program is.
core::result<std::optional<launch_place>> read_launch_place(const environment& given);

/// Returns the environment variables that `troupe launch` sets for machine `node` of `nodes`, from which
/// read_launch_place() reads its position. They also override variables that another launcher has left in the
/// environment. `leader` and `port` are the address at which the first machine listens.
std::vector<std::pair<std::string, std::string>> launch_variables(uint32_t node, uint32_t nodes,
                                                                  const std::string& leader, uint16_t port);

}  // namespace troupe::apps
