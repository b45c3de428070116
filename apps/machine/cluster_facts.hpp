// What `troupe doctor --cluster` learns of the hosts of a job and of each pair of them: plain values. Who asks is
// apps/agent/doctor_command.hpp's, what they mean apps/machine/cluster_findings.hpp's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::apps {

struct host_facts {           ///< what a host says of itself
  std::string version;        ///< of troupe and what it was built with
  std::string program;        ///< digest of troupe-train, which computes
  std::string configuration;  ///< digest of what its own file says; empty: it takes the first host's
  std::string processor;      ///< model name
  std::string instructions;   ///< by which products of matrices, and so their bits, differ
  uint32_t cores = 0;
  uint64_t memory_bytes = 0, available_bytes = 0;
  std::string folder;                      ///< of the run's output, or the one above it that is there
  uint64_t free_bytes = 0;                 ///< in it
  bool sees_token = false;                 ///< a file that the first host has just written there
  std::string cannot_write;                ///< the system's words; empty: it can
  std::vector<std::string> missing_files;  ///< that the job reads
};

struct examined_host {  ///< a host of `cluster.hosts`
  std::string name;
  std::optional<host_facts> facts;
  std::string problem{};  ///< why there are none
  /// Why it cannot take bytes from others on the address that the job's file says; empty: it can.
  std::string cannot_listen{};
};

struct examined_pair {  ///< bytes from one host to another, by their numbers
  uint32_t from = 0, to = 0;
  double delay_s = 0;  ///< half of the shortest round trip
  double bytes_per_s = 0;
  std::string problem{};  ///< why none was measured
};

struct examined_cluster {
  std::vector<examined_host> hosts;  ///< as cluster.hosts has them; the first is this one
  std::vector<examined_pair> pairs;
};

}  // namespace troupe::apps
