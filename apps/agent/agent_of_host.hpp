// One host's agent, from the first attempt to join a job to the job's end. Owns whom it joins and how often, and when
// it takes the lost first host's part; what an agent does is cluster/agent.hpp's, what the first host does
// lead_part.hpp's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/agent/lead_part.hpp"
#include "net/identity.hpp"

namespace troupe::apps {

struct agent_setup {                    ///< of one that joins a job
  std::string join{};                   ///< HOST:PORT of the first host; empty: the store says it
  std::string first{};                  ///< what its certificate is for; empty: any host of the authority
  net::identity_files files{};          ///< this host's; absolute where it may lead
  std::string job{};                    ///< that it belongs to; empty: to one without a name
  std::string configuration{};          ///< digest of this host's own file; empty: it has none
  std::optional<uint32_t> node{};       ///< this machine's number, where a launcher says it
  std::optional<store_of_job> store{};  ///< that says who leads; nothing: as the job's file says, once it is known
  std::optional<lead_ended> led{};      ///< a job that has begun, by this host: its end is the agent's
};

/// Of a host that led a job, or would have, which another one leads.
agent_setup agent_after(const lead_ended& led);

/// Serves the job until it is over, and joins again where the first host was lost or could not hear this one; where
/// the job has a store, it may take that host's part. After SIGHUP it does neither: who launched it has gone. Exit
/// codes: the job's; 2 bad input; 130, 143: ended by a signal before there was a job.
int agent(const agent_setup& a, const std::filesystem::path& program);

}  // namespace troupe::apps
