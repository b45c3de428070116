// Owns the options of `troupe agent --join HOST:PORT`, by which this machine joins a job that was started on another
// one, and the rules for combining them. Leaves the agent's work to agent_of_host.hpp.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/agent/agent_of_host.hpp"

namespace troupe::apps {

struct agent_arguments {
  std::string join;   ///< HOST:PORT of the first host; empty: the address is read from the store
  std::string first;  ///< name that the first host's certificate must contain; empty: the HOST of `join`
  std::string job;    ///< name of the agent's job; empty: a job without a name
  /// Store (an etcd service that names the leader); empty: the store in the job's file, once that has been received
  std::string store;
  /// Path of a file on this machine that must agree with the first host's; empty: only the first host's file is used
  std::string configuration;
  std::vector<std::string> set;  ///< overrides of `configuration`, each as key=value
  /// folder with this host's certificate, key and authority, as `troupe cert issue` writes them
  std::filesystem::path tls;
};

void add_agent_options(CLI::App& command, agent_arguments& a);

/// Returns the setup of the agent, or nothing if the arguments are wrong; the error has then been printed.
std::optional<agent_setup> setup_of(const agent_arguments& a);

}  // namespace troupe::apps
