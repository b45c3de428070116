// Combines a launcher's environment with a job's file: machines, ranks of each machine, the leader, and the keys that
// follow from them. If the two contradict each other, the error names the key or variable. Pure: starts and reads
// nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/launch/launch_place.hpp"
#include "config/load.hpp"
#include "core/error.hpp"

namespace troupe::apps {

struct launched_job {
  enum class part : uint8_t {
    alone,     ///< this program is one of several independent programs that the launcher started
    follower,  ///< this program ends at once: task 0 of this machine serves all of the machine's ranks
    leader,    ///< this program is `troupe train` on the first machine
    agent,     ///< this program is the agent of another machine than the first
  };
  part role = part::alone;
  std::vector<std::string> settings;  ///< settings as key=value, which override the configuration file's
  /// true: certificates have the names of hosts; false: hosts are named after their machine numbers
  bool names_hosts = false;
  uint32_t node = 0;
  std::string own_name;  ///< name of this machine, after which its certificate's files are named
  /// HOST:PORT at which the first machine, which leads the job, accepts the agents of the other hosts
  std::string leader;
  /// Name that the first machine's certificate must have; empty: any certificate that the job's authority has signed.
  std::string name_of_leader;
};

/// Returns the job that follows from `p`, the position in a launcher's environment, and a configuration file. The file
/// was loaded without `settings`, or with settings from leader_of and ranks_of, for files that are valid only with
/// these. Errors: bad_input.
core::result<launched_job> launched_job_of(const launch_place& p, const config::loaded& file,
                                           const std::string& host_name);

/// Returns the `cluster.listen` that follows from the environment alone; empty if the leader or its port is unknown.
std::string leader_of(const launch_place& p);

/// Returns the number of ranks of a job whose file has no degrees; 0 if the environment contains no number.
uint32_t ranks_of(const launch_place& p);

}  // namespace troupe::apps
