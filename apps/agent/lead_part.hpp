// The first host's part in a job, whoever has it: the lead in the store where the job names one, the agents' door, and
// `troupe train`'s supervision. Owns the order in which they come; what an agent does before and after is
// agent_command.hpp's.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/load.hpp"
#include "net/leader_store.hpp"

namespace troupe::apps {

struct lead_taken {  ///< by a host whose agent has lost the one that led
  std::unique_ptr<net::leader_store> store;
  net::lead me;
  std::string lost;  ///< the host that led; empty: this one
};

/// What a job that has a store says of it.
struct store_of_job {
  std::string store, job;
  uint32_t lease_s = 0;

  static store_of_job of(const config::cluster_section& c) {
    return {c.store, c.job, net::lease_s_for(c.lost_after_s)};
  }
};

/// Of the authority's certificate; empty where the file cannot be read.
std::string authority_digest(const std::filesystem::path& certificate);

/// Why a leader in the store is not of this job; empty: it is.
std::string objection(const net::lead& to, const std::string& authority, const store_of_job& of);

struct lead_ended {
  int code = 0;
  /// Another host leads, or may: the job goes on with this one as its agent, which needs the rest.
  std::optional<net::lead> follows;
  std::optional<config::cluster_section> cluster;
  std::vector<std::string> arguments;  ///< with which this host led
};

/// `troupe train` of these arguments, with what was taken or, where the job names a store, what is taken now.
lead_ended lead_job(std::vector<std::string> arguments, const std::filesystem::path& program,
                    std::optional<lead_taken> taken = {});

}  // namespace troupe::apps
