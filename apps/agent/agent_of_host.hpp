// Owns one host's agent, from the first attempt to join a job to the job's end: which leader it joins, how often it
// retries, and when it takes over from a lost first host. Leaves the work of an agent to cluster/agent.hpp, and the
// work of a leader to lead_part.hpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/agent/lead_part.hpp"
#include "net/identity.hpp"

namespace troupe::apps {

struct agent_setup {   ///< the settings with which agent() runs
  std::string join{};  ///< HOST:PORT of the first host; empty: the address is read from the store
  /// Name that the first host's certificate must contain; empty: any host of the authority is accepted
  std::string first{};
  /// This host's certificate, key and authority; absolute paths if the host may lead
  net::identity_files files{};
  std::string job{};               ///< name of the job; empty: a job without a name
  std::string configuration{};     ///< digest of this host's own configuration file; empty: this host has no such file
  std::optional<uint32_t> node{};  ///< this machine's number in the job; empty: no launcher has set a number
  /// Store (an etcd service that names the leader); empty: the store in the job's file, once that has been received
  std::optional<store_of_job> store{};
  /// The result of leading, if this host led a job that has begun and now becomes an agent of that job
  std::optional<lead_ended> led{};
};

/// Returns the settings with which this host, which has led a job or tried to, becomes an agent of the host that leads
/// now.
agent_setup agent_after(const lead_ended& led);

/// Serves the job until it ends. Joins again if the first host was lost or unreachable, and may take over the lead if
/// the job has a store. After SIGHUP, which a launcher sends when it ends, the agent neither retries nor waits for a
/// leader. Exit codes: the job's; 2 bad input; 130, 143: ended by a signal before there was a job.
int agent(const agent_setup& a, const std::filesystem::path& program);

}  // namespace troupe::apps
