// Owns the part of a host that leads a job: acquires the lead in the store if the job names one, listens for agents,
// and runs the supervision of `troupe train`, in this order. Leaves the time in which the host is an agent to
// agent_of_host.hpp.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/load.hpp"
#include "net/leader_store.hpp"

namespace troupe::apps {

struct lead_taken {  ///< the lead that a host has taken at the job's start or after the leader was lost
  std::unique_ptr<net::leader_store> store;
  net::lead me;
  std::string lost;  ///< name of the host that led before and was lost; empty: no other host led
};

/// Address of a job's store, the job's name in the store, and the duration of a lease in seconds.
struct store_of_job {
  std::string store, job;
  uint32_t lease_s = 0;

  static store_of_job of(const config::cluster_section& c) {
    return {c.store, c.job, net::lease_s_for(c.lost_after_s)};
  }
};

/// Returns the digest of the authority's certificate, a file; empty if it cannot be read.
std::string authority_digest(const std::filesystem::path& certificate);

/// Returns why a leader in the store does not belong to this job; empty if it does.
std::string objection(const net::lead& to, const std::string& authority, const store_of_job& of);

struct lead_ended {
  int code = 0;
  /// Set if another host leads or may lead, so that this host continues as an agent, with the settings in `cluster`.
  /// The value is an empty net::lead if the new leader is not known.
  std::optional<net::lead> follows;
  std::optional<config::cluster_section> cluster;
  std::vector<std::string> arguments;  ///< command-line arguments with which this host led the job
};

/// Runs `troupe train` with `arguments`. `taken`: the lead that this host holds already; without it, acquires the lead
/// before, if the job names a store.
lead_ended lead_job(std::vector<std::string> arguments, const std::filesystem::path& program,
                    std::optional<lead_taken> taken = {});

}  // namespace troupe::apps
