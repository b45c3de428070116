// `troupe agent --join HOST:PORT`: this machine's part in a job that was started on another one. Owns the options and
// what they mean together; what follows is agent_of_host.hpp's.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/agent/agent_of_host.hpp"

namespace troupe::apps {

struct agent_arguments {
  std::string join;              ///< HOST:PORT of the first host; empty: the store says it
  std::string first;             ///< what its certificate is for; empty: HOST
  std::string job;               ///< that it belongs to; empty: to one without a name
  std::string store;             ///< that says who leads; empty: as the job's file says, once it is known
  std::string configuration;     ///< a file that has to say what the first host's says; empty: that one's alone counts
  std::vector<std::string> set;  ///< over that file's
  std::filesystem::path tls;     ///< this host's certificate, key and authority, as `troupe cert issue` lays them
};

void add_agent_options(CLI::App& command, agent_arguments& a);

/// Nothing where they are wrong; that has been said.
std::optional<agent_setup> setup_of(const agent_arguments& a);

}  // namespace troupe::apps
