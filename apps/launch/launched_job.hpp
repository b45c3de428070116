// What a launcher's environment and a job's file say together: which machines there are, how many ranks each has, who
// leads, and which keys follow from that. A contradiction is refused by name. Pure: nothing is started or read here.
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
    alone,     ///< the launcher started several programs that have nothing to do with each other
    follower,  ///< another program on this machine acts for this one
    leader,    ///< the first machine's `troupe train`
    agent,     ///< of another machine
  };
  part role = part::alone;
  std::vector<std::string> settings;  ///< key=value, over the file's
  bool names_hosts = false;           ///< the hosts' names are those of their certificates; else made up from numbers
  uint32_t node = 0;
  std::string own_name;        ///< this machine's, as its certificate's files are called
  std::string leader;          ///< HOST:PORT where the other hosts find it
  std::string name_of_leader;  ///< what its certificate is for; empty: any of the job's authority
};

/// Of a file that was loaded without `settings`, or with what leader_of and ranks_of say. Errors: bad_input.
core::result<launched_job> launched_job_of(const launch_place& p, const config::loaded& file,
                                           const std::string& host_name);

/// What `cluster.listen` would be by the environment alone; empty where that does not say it.
std::string leader_of(const launch_place& p);

/// The ranks of a file without degrees; 0 where the launcher does not say.
uint32_t ranks_of(const launch_place& p);

}  // namespace troupe::apps
