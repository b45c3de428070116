// How a host takes the first host's part: what `troupe train` is started with there, of the job's order that its agent
// was given. Owns the arguments and the order of hosts; no network, no processes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cluster/messages.hpp"
#include "config/load.hpp"
#include "net/identity.hpp"

namespace troupe::apps {

struct own_part {                ///< of the host that takes it
  std::string host;              ///< its name
  std::string address;           ///< HOST:PORT where it listens
  net::identity_files identity;  ///< absolute
};

/// The arguments of `troupe train`, with `file` for the job's file: the host comes first, the others behind it in their
/// order, whichever checkpoint the run has of its own counts.
std::vector<std::string> arguments_of_leader(const cluster::job_order& order, const config::cluster_section& job,
                                             const std::string& file, const own_part& me);

/// Whether a host can lead: it has ranks in the job.
bool can_lead(const config::cluster_section& job, const std::string& host);

/// Of `cluster.listen`'s port at an address of this host, which others reach. Errors: bad_input, for an interface that
/// has none, and where only the address of every interface is known.
core::result<std::string> address_to_lead_at(const config::cluster_section& job, const std::string& host,
                                             const std::string& otherwise);

}  // namespace troupe::apps
