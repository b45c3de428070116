// Makes the arguments of `troupe train` for a host that becomes the leader, from the job's order that its agent
// received. Owns the arguments and the order of hosts; uses no network and starts no processes.
#pragma once

#include <string>
#include <vector>

#include "cluster/messages.hpp"
#include "config/load.hpp"
#include "net/identity.hpp"

namespace troupe::apps {

struct own_part {                ///< settings of a host that takes over the lead of the job
  std::string host;              ///< name of this host, as in `cluster.hosts` and in its certificate
  std::string address;           ///< HOST:PORT at which this host accepts the agents of the other hosts from now on
  net::identity_files identity;  ///< certificate, key and authority of the host, as absolute paths
};

/// Returns the arguments of `troupe train` with `file` in place of the job's file. They move the host to the front of
/// the list of hosts, and set its address and certificates.
std::vector<std::string> arguments_of_leader(const cluster::job_order& order, const config::cluster_section& job,
                                             const std::string& file, const own_part& me);

/// True if a host can lead: `cluster.hosts` lists it, and it is not a spare host.
bool can_lead(const config::cluster_section& job, const std::string& host);

/// Returns HOST:PORT at which `host` listens as the leader: the port of `cluster.listen`, and the address that the file
/// sets for `host` or its interface, else `otherwise`. Errors: bad_input for an interface without an address, and if
/// only the wildcard address is known, which other hosts cannot connect to.
core::result<std::string> address_to_lead_at(const config::cluster_section& job, const std::string& host,
                                             const std::string& otherwise);

}  // namespace troupe::apps
