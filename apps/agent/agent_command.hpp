// `troupe agent --join HOST:PORT`: this machine's part in a job that was started on another one. Owns the options and
// how often it joins; what an agent does is cluster/agent.hpp's.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "net/identity.hpp"

namespace troupe::apps {

struct agent_arguments {
  std::string join;              ///< HOST:PORT of the first host
  std::string first;             ///< what its certificate is for; empty: HOST
  std::string job;               ///< that it belongs to; empty: to one without a name
  std::string configuration;     ///< a file that has to say what the first host's says; empty: that one's alone counts
  std::vector<std::string> set;  ///< over that file's
  std::filesystem::path tls;     ///< this host's certificate, key and authority, as `troupe cert issue` lays them
};

void add_agent_options(CLI::App& command, agent_arguments& a);

struct agent_setup {               ///< of one that joins a job
  std::string join;                ///< HOST:PORT of the first host
  std::string first;               ///< what its certificate is for; empty: any host of the authority
  net::identity_files files;       ///< this host's
  std::string job{};               ///< that it belongs to; empty: to one without a name
  std::string configuration{};     ///< digest of this host's own file; empty: it has none
  std::optional<uint32_t> node{};  ///< this machine's number, where a launcher says it
};
/// Nothing where they are wrong; that has been said.
std::optional<agent_setup> setup_of(const agent_arguments& a);

/// Serves the job until it is over, and joins again where the first host was lost or could not hear this one; after
/// SIGHUP it does not: who launched it has gone. Exit codes: the job's; 2 bad input; 130, 143: ended by a signal before
/// there was a job.
int agent(const agent_setup& a, const std::filesystem::path& program);

}  // namespace troupe::apps
