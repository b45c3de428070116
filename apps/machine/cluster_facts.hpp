// Holds the facts that `troupe doctor --cluster` collects about the hosts of a job and each pair of them, as plain
// values. Leaves the questions to apps/agent/doctor_command.hpp, and their meaning to
// apps/machine/cluster_findings.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::apps {

struct host_facts {           ///< facts that a host reports about itself
  std::string version;        ///< version of troupe and of its compiler and LibTorch
  std::string program;        ///< digest of the host's troupe-train, the program that computes
  std::string configuration;  ///< digest of the host's own configuration file; empty: it uses the first host's
  std::string processor;      ///< model name of the host's processor
  std::string instructions;   ///< the processor's instructions that can change the bits of matrix products
  uint32_t cores = 0;
  uint64_t memory_bytes = 0, available_bytes = 0;
  std::string folder;       ///< folder of the run's output, or its parent if only that exists
  uint64_t free_bytes = 0;  ///< free bytes in `folder`
  /// true if the host can read the file that the first host has written to `folder`, so that the folder is shared
  bool sees_token = false;
  std::string cannot_write;                ///< the system's reason why the host cannot write to `folder`; empty: it can
  std::vector<std::string> missing_files;  ///< files that the job reads and this host lacks
};

struct examined_host {  ///< a host of `cluster.hosts`
  std::string name;
  std::optional<host_facts> facts;
  std::string problem{};  ///< reason why `facts` is empty
  /// Reason why the host cannot receive bytes from others on the address in the job's file; empty: it can.
  std::string cannot_listen{};
};

struct examined_pair {  ///< measured network path from one host to another, with the numbers of the two hosts
  uint32_t from = 0, to = 0;
  double delay_s = 0;  ///< half of the shortest round trip between the two hosts, in seconds
  double bytes_per_s = 0;
  std::string problem{};  ///< reason why the measurement of the pair is missing
};

struct examined_cluster {
  std::vector<examined_host> hosts;  ///< hosts of the job in the order of cluster.hosts; the first is this host
  std::vector<examined_pair> pairs;
};

}  // namespace troupe::apps
